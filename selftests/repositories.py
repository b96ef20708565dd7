"""Small repositories with a torch of their own, for tests that import no real torch."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


class Repository:
    """A git repository. `commits`: subject → id."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.commits = folder, {}
        folder.mkdir()
        git(folder, "init", "-q")

    def commit(self, subject: str, files: Mapping[str, str]) -> str:
        """Commits files below torch/."""
        for path, text in files.items():
            file = self.folder / "torch" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-qm", subject, "--allow-empty")
        self.commits[subject] = git(self.folder, "rev-parse", "HEAD")
        return self.commits[subject]
