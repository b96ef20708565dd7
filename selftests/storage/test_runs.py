"""Run folders: the newest unnamed runs are kept, and so is each run whose process still exists."""

import json
import os

import pytest

from conformance.storage import runs
from conformance.storage.check_results import CheckResult, Outcome


def test_a_run_that_is_not_over_is_kept(tmp_path):
    folder = runs.runs_folder(tmp_path)
    no_process = 2**22 + 1  # larger than any process id of Linux
    names = [f"20260101T00000{i}-{os.getpid() if i == 0 else no_process + i}" for i in range(runs.MAX_UNNAMED_RUNS + 3)]
    for name in names:
        (folder / name).mkdir()
    runs.new_run(tmp_path, None)
    assert sorted(path.name for path in folder.iterdir()) == [names[0], *names[-runs.MAX_UNNAMED_RUNS + 1 :]]


def test_a_run_that_cannot_be_kept_below_the_root_says_where_it_is(tmp_path):
    root = tmp_path / "file"
    root.write_text("a file, so no folder can be created here")  # works for root too, unlike a read-only folder
    (where,) = runs.temporary_folder_notice(root, runs.Run(runs.run_folder(root, "mine")))
    assert where == f"{root}/.conformance/runs cannot be written to: this run is in {runs.runs_folder(root)}/mine"
    assert runs.temporary_folder_notice(tmp_path, runs.Run(runs.run_folder(tmp_path, "mine"))) == []


def test_an_item_is_read_as_it_was_written(tmp_path):
    run = runs.Run(tmp_path / "mine")
    checks = {
        "numerics": CheckResult(Outcome.FAILED, "NumericsError: first: second"),
        "code": CheckResult(Outcome.PASSED),
    }
    item = runs.ItemRecord("scale/double", "cuda_sm90", "native", "2.13.0", "/ops", checks=checks)
    run.begin({})
    run.write_item(item)
    assert run.item("scale/double", "cuda_sm90") == item
    assert list(run.items()) == [item]
    assert (item.outcome("numerics"), item.outcome("binary")) == (Outcome.FAILED, None)


def test_a_run_of_the_version_before_is_refused(tmp_path):
    """That version stored the result of a check as a text."""
    for name, again in (("mine", "pytest --save-run mine"), ("20260101T000000-7", "pytest")):
        run = runs.Run(runs.run_folder(tmp_path, name))
        run.begin({})
        run.write_item(runs.ItemRecord("scale/double", "cuda_sm90", "native", "2.13.0", "/ops"))
        (file,) = (run.folder / "items").rglob("*.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"checks": {"code": "failed: it differs"}}))
        with pytest.raises(runs.RunError) as caught:
            runs.open_run(tmp_path, name)
        assert str(caught.value) == (
            f"the run {run.folder} was not written by this version of the suite (a check's result is 'failed: it "
            f"differs', not an outcome and its detail); write it again with: {again}"
        )


def test_where_the_root_cannot_be_written_to_only_its_own_runs_are_found(tmp_path, monkeypatch):
    """Such projects share a temporary folder."""
    monkeypatch.setattr(runs, "_temporary_folder", lambda: tmp_path / "shared")
    for name in ("one", "other"):
        (tmp_path / name).write_text("a file, so no folder can be created here")
        root = tmp_path / name
        run = runs.new_run(root, f"of_{name}")
        run.begin({"root": str(root)})
    runs.Run(tmp_path / "shared/broken").begin({})
    (tmp_path / "shared/broken/run.json").write_text("{")
    assert list(runs.existing_runs(tmp_path / "one")) == ["of_one"]
    with pytest.raises(runs.RunError, match="there is no run 'of_other'; existing runs: of_one; looked in "):
        runs.open_run(tmp_path / "one", "of_other")


def test_the_link_to_the_last_run_moves_with_the_project(tmp_path):
    run = runs.new_run(tmp_path / "project", "mine")
    run.begin({})
    runs.link_last_run(tmp_path / "project", run)
    (tmp_path / "project").rename(tmp_path / "moved")
    assert runs.open_run(tmp_path / "moved", "last").folder.resolve() == tmp_path / "moved/.conformance/runs/mine"
