"""Run folders: of the unnamed ones the newest are kept, and none goes away under a run that still writes to it."""

import os

from conformance.storage import runs as runs_module


def test_a_run_that_is_not_over_is_kept(tmp_path):
    runs = runs_module.runs_folder(tmp_path)
    gone = 2**22 + 1  # above what Linux gives to processes
    names = [f"20260101T00000{i}-{os.getpid() if i == 0 else gone + i}" for i in range(runs_module.KEPT + 3)]
    for name in names:
        (runs / name).mkdir()
    runs_module.fresh(tmp_path, None)
    assert sorted(folder.name for folder in runs.iterdir()) == [names[0], *names[-runs_module.KEPT + 1 :]]


def test_a_run_that_cannot_be_kept_below_the_root_says_where_it_is(tmp_path):
    root = tmp_path / "file"
    root.write_text("no folder can be made in it")  # as on a disk that is read-only, and for root too
    (where,) = runs_module.kept_elsewhere(root, runs_module.Run(runs_module.named(root, "mine")))
    assert where == f"{root}/.conformance/runs cannot be written: this run is in {runs_module.runs_folder(root)}/mine"
    assert runs_module.kept_elsewhere(tmp_path, runs_module.Run(runs_module.named(tmp_path, "mine"))) == []
