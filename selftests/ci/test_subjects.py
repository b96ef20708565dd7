"""The subjects of new commits have at most 72 characters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "ci"))
import subjects


def commit(root: Path, subject: str, file: str = "a.txt") -> None:
    (root / file).write_text(subject)
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for words in (["add", file], [*identity, "commit", "--quiet", "-m", subject]):
        subprocess.run(["git", *words], cwd=root, check=True)


def test_commits_after_the_check_was_added(tmp_path):
    assert subjects.too_long(tmp_path, "check.py") is None
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    commit(tmp_path, "a" * 100)
    assert subjects.too_long(tmp_path, "check.py") == []
    commit(tmp_path, "b" * 73, "check.py")
    commit(tmp_path, "c" * 72)
    assert subjects.too_long(tmp_path, "check.py") == []
    commit(tmp_path, "d" * 73)
    [found] = subjects.too_long(tmp_path, "check.py")
    assert found.endswith("d" * 73)
