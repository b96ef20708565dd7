"""`merge`: which records a merged run keeps, that they say where they are from, and that other commands read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import schemas
from suites import Suite

from conformance.cli.main import main
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.merged_runs import merge_runs
from conformance.storage.runs import NOT_ENDED, ItemRecord, Run, RunError, open_run

TORCH = "2.13.0+cpu"
TIME = "2026-11-24T07:00:00Z"
F32, F16 = "scale/double-f32", "scale/double-f16"
PASSED = CheckResult(Outcome.PASSED)
FAILED = CheckResult(Outcome.FAILED, "NumericsError: it differs")
SKIPPED = CheckResult(Outcome.SKIPPED, "Triton is not installed: pip install triton")
TEXT = "kernels       1: mul\n"


def record(case: str = F32, target: str = "cuda_sm90", evidence: str = "emulated", **more) -> ItemRecord:
    values = {"mode": "deviceless", "torch": TORCH, "store": "/there/expected_code", "text": TEXT}
    return ItemRecord(case, target, evidence=evidence, **values | {"checks": {"numerics": PASSED}} | more)


def run(folder: Path, *records: ItemRecord, time: str = TIME, torch: str = TORCH, gpu: str = "") -> Run:
    made = Run(folder)
    machine = {"gpus": {"cuda": gpu}} if gpu else {}
    targets = sorted({each.target for each in records})
    made.begin({"torch": torch, "triton": "3.7.1", "targets": targets, "machine": machine, "time": time})
    made.write_selected({f"test_scale.py::{each.name}": each.name for each in records})
    for each in records:
        made.write_item(each)
    return made


def test_shards_are_joined(tmp_path):
    parts = [run(tmp_path / "a", record(F32)), run(tmp_path / "b", record(F16), record(F32, "cpu_avx2", "native"))]
    result = merge_runs(parts, tmp_path / "all")
    assert result.items == {"a": 1, "b": 2}
    assert result.replaced == []
    merged = Run(tmp_path / "all")
    assert {each.name: each.run for each in merged.items()} == {
        f"{F32}-cuda_sm90": "a",
        f"{F16}-cuda_sm90": "b",
        f"{F32}-cpu_avx2": "b",
    }
    assert set(merged.selected().values()) == {each.name for each in merged.items()}
    assert list(schemas.run_problems(merged.folder)) == []


def test_what_explains_an_item_comes_from_the_run_of_its_record(tmp_path):
    """`merge` and the report of a merged run: the explanation is that of the code that won."""
    first, second = run(tmp_path / "a", record(F32), record(F16)), run(tmp_path / "b", record(F32, evidence="native"))
    name, other = f"{F32}-cuda_sm90", f"{F16}-cuda_sm90"
    for each, word in ((first, "emulated"), (second, "native")):
        each.write_explanation(name, {"why": word})
    first.write_explanation(other, {"why": "alone"})
    for folder, parts in ((tmp_path / "all", [first, second]), (tmp_path / "reversed", [second, first])):
        merge_runs(parts, folder)
        kept = [json.loads(Run(folder).explanation_file(each).read_text(encoding="utf-8")) for each in (name, other)]
        assert kept == [{"why": "native"}, {"why": "alone"}]


def test_each_item_keeps_its_machine_and_evidence(tmp_path):
    cpu = run(tmp_path / "cpu", record())
    gpu = run(tmp_path / "gpu", record(F32, evidence="native", mode="native"), gpu="NVIDIA H200")
    result = merge_runs([gpu, cpu], tmp_path / "all")
    merged = Run(tmp_path / "all")
    [item] = merged.items()
    assert (item.evidence, item.mode, item.run) == ("native", "native", "gpu")
    assert merged.description()["merged"][item.run]["machine"] == {"gpus": {"cuda": "NVIDIA H200"}}
    assert [str(each) for each in result.replaced] == [
        f"{F32}-cuda_sm90: kept native of gpu instead of emulated of cpu"
    ]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (record(), record(), "second"),  # equal evidence: the newer run
        (record(evidence="native"), record(), "first"),
        (record(), record(evidence="native", checks={"numerics": FAILED}), "second"),
        (record(), record(evidence="native", checks={"numerics": CheckResult(Outcome.FAILED, NOT_ENDED)}), "first"),
        (record(evidence="generated"), record(evidence="generated", checks={"compile": SKIPPED}), "first"),
        (record(evidence="generated"), record(evidence="compiled"), "second"),
    ],
)
def test_which_record_is_kept(tmp_path, first, second, kept):
    older = run(tmp_path / "first", first)
    newer = run(tmp_path / "second", second, time="2026-11-24T08:00:00Z")
    for number, order in enumerate(([older, newer], [newer, older])):
        merge_runs(order, tmp_path / f"all{number}")
        [item] = Run(tmp_path / f"all{number}").items()
        assert item.run == kept


def test_hidden_failure_is_named_and_sets_the_status(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "cpu", record(checks={"numerics": FAILED}))
    run(tmp_path / "gpu", record(evidence="native"))
    assert main(["merge", "cpu", "gpu", "-o", "./all"]) == 1
    line, *_, last, then = capsys.readouterr().out.splitlines()
    assert line == f"{F32}-cuda_sm90: kept native of gpu instead of emulated of cpu; numerics failed there"
    assert (last, then) == ("merged into all: 1 items", "next: python -m conformance review ./all")


def test_artifacts_of_kept_records_come_along(tmp_path):
    part = run(tmp_path / "a", record())
    (part.artifacts(f"{F32}-cuda_sm90") / "reproduce.py").write_text("1")
    merge_runs([part], tmp_path / "all")
    assert (tmp_path / "all/failures" / f"{F32}-cuda_sm90" / "reproduce.py").read_text() == "1"


def test_merged_run_can_be_merged_again(tmp_path):
    first = merge_runs([run(tmp_path / "a", record()), run(tmp_path / "b", record(F16))], tmp_path / "ab")
    assert first.items == {"a": 1, "b": 1}
    merge_runs([Run(tmp_path / "ab"), run(tmp_path / "c", record(F32, "cpu_avx2"))], tmp_path / "abc")
    merged = Run(tmp_path / "abc")
    assert {each.run for each in merged.items()} == {"ab/a", "ab/b", "c"}
    assert set(merged.description()["merged"]["ab"]["merged"]) == {"a", "b"}
    assert list(schemas.run_problems(merged.folder)) == []


def test_refusals_write_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "a", record())
    run(tmp_path / "other/a", record())
    run(tmp_path / "new", record(F16, torch="2.15.0"), torch="2.15.0")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    for words, message in (
        (["a", "other/a"], "two runs have the name a: rename the folder of one"),
        (["a", "new"], "the runs are of torch 2.13 and 2.15: merge runs of one torch release"),
        (["a", "nowhere"], "there is no run 'nowhere'"),
    ):
        assert main(["merge", *words, "-o", "out"]) == 2
        assert capsys.readouterr().err.startswith(f"error: {message}")
        assert not (tmp_path / "out").exists()
    assert main(["merge", "a", "-o", "./full"]) == 2
    assert capsys.readouterr().err == "error: full exists already: name a new folder\n"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".merge")) == []


def test_failure_while_writing_leaves_no_folder(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise RunError("the disk is full")

    part = run(tmp_path / "a", record())
    monkeypatch.setattr(Run, "write_item", full)
    with pytest.raises(RunError, match="the disk is full"):
        merge_runs([part], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_review_accept_and_baseline_read_it(tmp_path, capsys, monkeypatch):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", SCALE_CASES)
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "a", record(F32))
    run(tmp_path / "b", record(F16))
    assert main(["merge", "a", "b", "-o", "all"]) == 0
    capsys.readouterr()
    assert main(["review", "all", "ops", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["new"] == [f"{F16}-cuda_sm90", f"{F32}-cuda_sm90"]
    assert main(["accept", "all", "ops"]) == 0
    assert "snapshots: 2 new, 0 changed, 0 unchanged" in capsys.readouterr().out
    assert main(["review", "a", "--list", "--baseline", "all"]) == 0
    assert "nothing differs: 1 text unchanged" in capsys.readouterr().out
    assert open_run(tmp_path, "all").item(F32, "cuda_sm90") is not None


SCALE_CASES = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]))
def test_double(x):
    return x * 2
"""


def test_a_name_is_that_of_a_run_as_save_run_takes_it(tmp_path, capsys, monkeypatch):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "cpu", record())
    assert main(["merge", "cpu", "-o", "all"]) == 0
    assert f"merged into {tmp_path}/.conformance/runs/all: 1 items" in capsys.readouterr().out
    assert not (tmp_path / "all").exists()
    assert open_run(tmp_path, "all").item(F32, "cuda_sm90") is not None
