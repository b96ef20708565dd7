"""Shards by pytest-split: together they run each item once, and their runs merge."""

from __future__ import annotations

import json

import pytest
from suites import SM90, PreloadedSuite

from conformance.cli.main import main
from conformance.harness.schedule.shards import by_function, seconds_of_items
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, Run

pytest.importorskip("pytest_split", reason="pytest-split is not installed: pip install -e '.[dev]'")

CASES = """
from conformance import case, tensor

@case(x=tensor(20))
def test_slow(x):
    return x + 1

@case(x=tensor(20, dtype=["f32", "f16", "i32"]))
def test_flip(x):
    return x.flip(0)
"""
RUN = (*SM90, "--checks", "requirements", "--splits", "2", "--durations-path", "seconds.json")


@pytest.mark.long("it runs each shard in a process of its own, and one of them twice")
def test_shards_run_each_item_once_and_a_run_goes_on(tmp_path, monkeypatch, capsys):
    suite = PreloadedSuite(tmp_path)
    suite.write("ops/test_shards.py", CASES)
    suite.write(
        "seconds.json", json.dumps({"ops/test_shards.py::test_slow": 9.0, "ops/test_shards.py::test_flip": 1.0})
    )
    for group in ("1", "2"):
        suite.run(*RUN, "--group", group, "--save-run", f"shard{group}").ends(0)
    runs = tmp_path / ".conformance/runs"
    flips = {f"shards/flip-{dtype}-cuda_sm90" for dtype in ("f32", "f16", "i32")}
    assert [{item.name for item in Run(runs / name).items()} for name in ("shard1", "shard2")] == [
        {"shards/slow-cuda_sm90"},
        flips,
    ]
    monkeypatch.chdir(tmp_path)
    assert main(["merge", "shard1", "shard2", "-o", "all"]) == 0, capsys.readouterr().err
    assert {item.name for item in Run(runs / "all").items()} == flips | {"shards/slow-cuda_sm90"}
    assert set(Run(runs / "all").selected().values()) == flips | {"shards/slow-cuda_sm90"}

    rest = (*SM90, "--checks", "requirements", "--missing")
    suite.run(*rest, "shard1", "--save-run", "rest").ends(0)
    assert {item.name for item in Run(runs / "rest").items()} == flips
    suite.run(*rest, str(runs / "all")).ends(pytest.ExitCode.NO_TESTS_COLLECTED).has("the run lacks no selected item")
    record = Run(runs / "rest").item_named("shards/flip-i32-cuda_sm90")
    record.checks["requirements"] = CheckResult(Outcome.FAILED, NOT_ENDED)  # as after kill -9
    Run(runs / "rest").write_item(record)
    again = suite.run(*rest, "rest", "--collect-only", "-q", "-k", "flip").ends(0)
    again.has("test_flip[i32-cuda_sm90]").has_not("test_flip[f32-cuda_sm90]")
    suite.run(*rest, "rest", "--save-run", "rest").ends(pytest.ExitCode.USAGE_ERROR).has("give --save-run another name")


def test_seconds_by_function():
    seconds = by_function({"f.py::test_b[x-1]": 1.0, "f.py::test_b[x-2]": 2.0, "f.py::test_a": 0.5})
    assert seconds == {"f.py::test_a": 0.5, "f.py::test_b": 1.5}
    ids = ["f.py::test_b[x-3]", "f.py::test_c[x]", "f.py::test_a"]
    assert seconds_of_items(ids, seconds) == {"f.py::test_b[x-3]": 1.5}
