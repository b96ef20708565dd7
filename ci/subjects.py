"""Checks the subjects of new commits: `python ci/subjects.py`. A subject has at most 72 characters.

New are the commits after the one that added this file: earlier ones cannot be changed. Where git or the history is
missing, as in an sdist, nothing is checked, and a line says so.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LONGEST = 72
ROOT = Path(__file__).resolve().parent.parent


def too_long(root: Path, file: str) -> list[str] | None:
    """The short ids and subjects of the commits since `file` was added that are too long; None without a history."""
    try:
        added = _lines(root, "log", "--diff-filter=A", "--format=%H", "--", file)
        commits = _lines(root, "log", "--no-merges", "--format=%h %s", f"{added[-1]}..HEAD") if added else []
    except (OSError, subprocess.CalledProcessError):
        return None
    return [commit for commit in commits if len(commit.partition(" ")[2]) > LONGEST]


def _lines(root: Path, *words: str) -> list[str]:
    return subprocess.run(
        ["git", *words], cwd=root, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout.splitlines()


def main() -> int:
    found = too_long(ROOT, Path(__file__).resolve().relative_to(ROOT).as_posix())
    if found is None:
        print("subjects of commits are not checked: there is no git, or no history")
    for commit in found or ():
        print(f"{commit}: the subject has more than {LONGEST} characters")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
