"""Snapshots without a case: reported after a full run, and removed on request."""

from __future__ import annotations

import pytest

from conformance.cases.loader import cases_in
from conformance.cli.main import main
from conformance.storage.locations import snapshot_stores
from conformance.storage.unused import unused_snapshots

FILE = """
from conformance import case, tensor


@case(x=tensor(20, dtype=["f32", "f16"]))
def test_double(x):
    return x * 2
"""
TEXT = "== torch 2.11 2.13: cpu_avx2\n--- inference\na\n"
BINARIES = """torch 2.13, Triton 3.7.1

== double-f32: cuda_sm80 cuda_sm90
kernel XBLOCK=64: registers 8

== gone: cuda_sm90
kernel XBLOCK=64: registers 9
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("ops/test_scale.py", "ops/test_shift.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(FILE)
    for name in ("scale/double-f32", "scale/double-f16", "shift/double-f32", "scale/gone", "other/gone"):
        path = tmp_path / "ops/expected_code" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT)
    (tmp_path / "ops/expected_binary").mkdir()
    for name in ("scale", "other"):
        (tmp_path / f"ops/expected_binary/{name}.txt").write_text(BINARIES)
    return tmp_path


def stored(project):
    return sorted(path.stem for path in (project / "ops/expected_code").rglob("*.txt"))


def test_prune(project, capsys):
    assert main(["prune", "ops"]) == 0
    out = capsys.readouterr().out
    assert "other/gone.txt" in out
    assert "scale/gone.txt" in out
    assert "2 snapshots of cases that no longer exist: nothing was removed; --yes removes them" in out
    assert len(stored(project)) == 5
    assert main(["prune", "ops", "--yes"]) == 0
    assert stored(project) == ["double-f16", "double-f32", "double-f32"]
    assert main(["prune", "ops"]) == 0
    assert "no snapshots of cases that no longer exist" in capsys.readouterr().out


def test_prune_takes_binaries_too(project, capsys):
    folder = project / "ops/expected_binary"
    assert main(["prune", "ops"]) == 0
    out = capsys.readouterr().out
    assert "scale.txt: scale/gone\n" in out
    assert "scale/double-f32" not in out
    assert "binaries of 3 cases that no longer exist: nothing was removed" in out
    assert (folder / "scale.txt").read_text() == BINARIES
    assert main(["prune", "ops", "--yes"]) == 0
    assert not (folder / "other.txt").exists()
    assert (folder / "scale.txt").read_text() == BINARIES.partition("\n\n== gone")[0] + "\n"
    capsys.readouterr()
    assert main(["prune", "ops"]) == 0
    assert "binaries" not in capsys.readouterr().out


def test_a_file_of_binaries_that_cannot_be_read_is_an_error_of_its_own(project, capsys):
    (project / "ops/expected_binary/scale.txt").write_text("nothing\n")
    assert main(["prune", "ops", "--yes"]) == 2
    assert "scale.txt:1: the first line is 'nothing'; write it like" in capsys.readouterr().err


def test_a_file_that_was_not_looked_at_keeps_its_snapshots(project, capsys):
    assert main(["prune", "ops/test_scale.py", "--yes"]) == 0
    assert len(stored(project)) == 5
    (project / "ops/test_shift.py").write_text("from conformance import nothing_like_this\n")
    assert main(["prune", "ops", "--yes"]) == 2
    assert "cannot be imported" in capsys.readouterr().err
    assert len(stored(project)) == 5
    cases = list(cases_in((project / "ops/test_scale.py").resolve()).values())
    (project / "ops/expected_code/shift/gone.txt").write_text(TEXT)
    assert [case for _, case in unused_snapshots(cases, [project / "ops"])] == [
        "other/gone",
        "scale/gone",
    ]  # skipped, not gone


def test_a_version_is_dropped(project, capsys):
    assert main(["prune", "--torch", "2.11", "ops"]) == 0
    assert capsys.readouterr().out == "torch 2.11: 5 texts are stored: nothing was removed; --yes removes them\n"
    assert main(["prune", "--yes", "--torch", "2.11", "ops"]) == 0
    assert "torch 2.11: 5 texts removed; stored are 2.13" in capsys.readouterr().out
    (store,) = snapshot_stores([project / "ops"])
    assert store.versions() == ["2.13"]
    assert (project / "ops/expected_binary/scale.txt").exists()  # of 2.13
    assert main(["prune", "--yes", "--torch", "2.11", "ops"]) == 2
    assert "nothing is stored for torch 2.11; stored are 2.13" in capsys.readouterr().err
    assert main(["prune", "--yes", "--torch", "2.13", "ops"]) == 0
    assert "torch 2.13: 2 files of binaries removed" in capsys.readouterr().out
    assert not list((project / "ops/expected_binary").glob("*.txt"))


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
def test_a_full_run_says_so(suite):
    suite.write("ops/expected_code/scale/gone.txt", TEXT)
    line = "1 snapshot belongs to no case: scale/gone; remove with: python -m conformance prune ops"
    suite.run("ops", "--checks", "requirements").has_not("belongs to no case")
    suite.run("ops", "-k", "f32 and avx2").has_not("belongs to no case")
    suite.run("ops", "-n", "2").has(line)
