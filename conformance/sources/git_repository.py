"""Reads a git repository through git itself. Nothing here changes the repository, its index or its files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance.errors import ConformanceError, first_line


class GitError(ConformanceError, RuntimeError):
    """git is missing, or it refused what it was asked."""


def git(folder: Path, *words: str, given: bytes = b"") -> bytes:
    """What `git WORDS` prints in a folder. `given`: its input. Raises GitError with git's first line."""
    command = ["git", "-c", "core.quotePath=false", "-C", str(folder), "--no-optional-locks", *words]
    try:
        result = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise GitError("git is not installed: install it, or name a folder without @COMMIT") from None
    if result.returncode:
        said = ValueError(result.stderr.decode(errors="replace"))
        raise GitError(f"{folder}: git {words[0]} failed: {first_line(said) or f'status {result.returncode}'}")
    return result.stdout


def git_lines(folder: Path, *words: str) -> list[str]:
    """The lines that `git WORDS` prints. Raises GitError."""
    return git(folder, *words).decode(errors="replace").splitlines()


def is_repository(folder: Path) -> bool:
    """Whether a folder is in a git repository. False as well where git is not installed."""
    try:
        git(folder, "rev-parse", "--git-dir")
    except GitError:
        return False
    return True


def commit_id(folder: Path, name: str) -> str:
    """The whole id of a commit. Raises GitError if the repository has no such commit."""
    try:
        return git_lines(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")[0]
    except GitError:
        if is_repository(folder):
            raise GitError(
                f"{folder} has no commit {name!r}: name a commit, a branch or a tag of it; fetch it first if it is new"
            ) from None
        raise GitError(f"{folder} is not a git repository, so it has no commit {name!r}") from None


def subject(folder: Path, commit: str) -> str:
    """The first line of a commit's message."""
    return (git_lines(folder, "show", "--no-patch", "--format=%s", commit) or [""])[0]


def blobs_below(folder: Path, commit: str, path: str) -> dict[str, str]:
    """Path → id of its content, for all files of a commit below a path. Both are relative to `folder`."""
    result = {}
    for entry in git(folder, "ls-tree", "-r", "-z", commit, "--", path).decode(errors="replace").split("\0"):
        about, _, name = entry.partition("\t")
        if name and about.split()[1] == "blob":
            result[name] = about.split()[2]
    return result


def contents(folder: Path, blobs: Sequence[str]) -> Iterator[bytes]:
    """The contents of blobs, in their order. Raises GitError for one that the repository lacks."""
    output = git(folder, "cat-file", "--batch", given="".join(f"{each}\n" for each in blobs).encode())
    place = 0
    for blob in blobs:
        end = output.index(b"\n", place)
        words = output[place:end].split()
        if len(words) != 3:
            raise GitError(f"{folder} lacks the content {blob} of a file: fetch it, such as with git fetch --refetch")
        size = int(words[2])
        yield output[end + 1 : end + 1 + size]
        place = end + 1 + size + 1


def changes_below(folder: Path, good: str, bad: str, path: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Commit → path → the ids of its content before and after, which are all 0 where there is no such file.

    For the commits after `good` up to `bad`, the oldest first: by first parents, so a merge stands for all that it
    brings. Commits that change nothing below `path` are left out.
    """
    words = ["log", "--reverse", "--first-parent", "--diff-merges=first-parent", "--raw", "--no-abbrev", "--no-renames"]
    text = git(folder, *words, "-z", "--format=%x01%H", f"{good}..{bad}", "--", path).decode(errors="replace")
    result: dict[str, dict[str, tuple[str, str]]] = {}
    for part in text.split("\x01")[1:]:
        commit, *entries = (entry.strip("\n") for entry in part.split("\0"))
        pairs = zip(entries[::2], entries[1::2], strict=False)
        result[commit] = {name: (about.split()[2], about.split()[3]) for about, name in pairs if about.startswith(":")}
    return result


def is_ancestor(folder: Path, old: str, new: str) -> bool:
    """Whether `new` is `old`, or comes after it."""
    return git_lines(folder, "merge-base", old, new)[:1] == [old] if _are_related(folder, old, new) else False


def _are_related(folder: Path, old: str, new: str) -> bool:
    try:
        git(folder, "merge-base", old, new)
    except GitError:  # status 1: no common ancestor
        return False
    return True
