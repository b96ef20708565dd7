"""What a page of a case has: artifacts are cut where they are too long, and where they are too many."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import FAILED, made_run, record

from conformance.report import details
from conformance.report.changes import changes_of
from conformance.report.columns import cells_of


def test_artifacts_are_cut_and_name_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "_LONGEST_ARTIFACT", 100)
    names = [f"flip/{number}" for number in range(3)]
    run = made_run(tmp_path / "run", [record(name, "cpu_avx2", FAILED) for name in names])
    for name in names:
        folder = run.artifacts(f"{name}-cpu_avx2")
        (folder / "joint_graph.py").write_text("x" * 130, encoding="utf-8")
        (folder / "numerics.txt").write_text("one line", encoding="utf-8")
    cells = cells_of([run])
    monkeypatch.setattr(details._ArtifactTexts, "left", 150)
    monkeypatch.setattr(details._ArtifactTexts.__init__, "__defaults__", (150,))
    found = [each[0] for each in details.details(cells, changes_of(cells), [{}])["flip"]["cells"].values()]
    texts = [each["artifacts"]["joint_graph.py"] for each in found]
    assert [text.count("x" * 10) for text in texts] == [10, 5, 0]
    assert texts[1].endswith(f"\n… 80 further characters: {run.folder}/failures/flip/1-cpu_avx2/joint_graph.py")
    assert all("messages" not in each for each in found), "the record has that line already"
