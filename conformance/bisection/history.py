"""The commits between two, and which functions of torch's Python files each of them changes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.errors import ConformanceError
from conformance.sources import git_repository
from conformance.sources.torch_source import is_source
from conformance.sources.units import SKELETON, changed_units, units_of

#: Below a commit's changes: the whole file, which is no Python or is new, gone or not Python that can be read.
WHOLE = "<file>"


class HistoryError(ConformanceError, ValueError):
    """Two commits between which nothing can be searched."""


class History:
    """The commits of a repository between two of them. `good`, `bad`: whole ids.

    Raises HistoryError where `bad` does not come after `good`, or where no commit between changes a file of torch.
    """

    def __init__(self, repository: Path, good: str, bad: str) -> None:
        self.repository, self.good, self.bad = repository, good, bad
        if good == bad:
            raise HistoryError(f"--good and --bad are the same commit, {good[:12]}: name two")
        if not git_repository.is_ancestor(repository, good, bad):
            if git_repository.is_ancestor(repository, bad, good):
                raise HistoryError(
                    f"--bad {bad[:12]} comes before --good {good[:12]}: swap them; the commit that changed the answer "
                    "is found in either case"
                )
            raise HistoryError(
                f"--bad {bad[:12]} does not come after --good {good[:12]}: name two commits of one branch"
            )
        self._changed = {
            commit: changed
            for commit, files in git_repository.changes_below(repository, good, bad, "torch").items()
            if (changed := {path.removeprefix("torch/"): ids for path, ids in files.items() if _is_of_torch(path)})
        }
        self.commits = list(self._changed)
        if not self.commits:
            raise HistoryError(
                f"no commit after {good[:12]} up to {bad[:12]} changes a Python file below torch/: what changed is "
                "C++, or elsewhere"
            )

    def changed_files(self, commit: str) -> Mapping[str, tuple[str, str]]:
        """Path below torch/ → the ids of its content before and after, which are all 0 for no file."""
        return self._changed[commit]

    @functools.cache  # noqa: B019 - one history a process
    def changes(self, commit: str, path: str) -> frozenset[str]:
        """The units of a file that a commit changes; WHOLE where that cannot be said."""
        before, after = self.changed_files(commit)[path]
        if not path.endswith(".py") or not before.strip("0") or not after.strip("0"):
            return frozenset([WHOLE])
        old, new = (content.decode(errors="replace") for content in self._contents(before, after))
        try:
            return frozenset(changed_units(old, new))
        except (SyntaxError, ValueError):
            return frozenset([WHOLE])

    def units_at(self, commit: str, path: str, lines: Sequence[int]) -> frozenset[str]:
        """The units that hold these lines of a file of a commit."""
        blob = self._blob(commit, path)
        if not blob:
            return frozenset([WHOLE])
        (content,) = self._contents(blob)
        try:
            units = units_of(content.decode(errors="replace"))
        except (SyntaxError, ValueError):
            return frozenset([WHOLE])
        return frozenset(units.at(line) for line in lines) | {SKELETON}

    def touches(self, commit: str, executed: Mapping[str, Sequence[int]], at: str) -> bool:
        """Whether a commit changes something that is executed. `executed`: path → lines of functions, at a commit.

        A file that Python does not import counts as executed.
        """
        for path in self.changed_files(commit):
            if path.endswith(".py") and path not in executed:
                continue
            units = self.changes(commit, path)
            if units & {WHOLE, SKELETON} or units & self._executed_units(at, path, tuple(executed[path])):
                return True
        return False

    @functools.cache  # noqa: B019 - one history a process
    def _executed_units(self, commit: str, path: str, lines: tuple[int, ...]) -> frozenset[str]:
        return self.units_at(commit, path, lines)

    @functools.cache  # noqa: B019 - one history a process
    def _tree(self, commit: str) -> Mapping[str, str]:
        return git_repository.blobs_below(self.repository, commit, "torch")

    def _blob(self, commit: str, path: str) -> str:
        return self._tree(commit).get(f"torch/{path}", "")

    def text(self, commit: str, path: str) -> str:
        """A file of a commit; "" if it has none."""
        blob = self._blob(commit, path)
        return next(iter(self._contents(blob))).decode(errors="replace") if blob else ""

    def diff(self, old: str, new: str, path: str) -> list[str]:
        """The lines of a diff between two commits without context: of a file below torch/, or with "" of all."""
        words = ["diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--src-prefix=a/"]
        words += ["--dst-prefix=b/", old, new]
        text = git_repository.git(self.repository, *words, "--", f"torch/{path}").decode(errors="replace")
        return text.splitlines()

    def _contents(self, *blobs: str) -> tuple[bytes, ...]:
        return tuple(map(self._content, blobs))

    @functools.lru_cache(maxsize=512)  # noqa: B019 - one history a process
    def _content(self, blob: str) -> bytes:
        return next(git_repository.contents(self.repository, [blob]))

    def parent(self, commit: str) -> str:
        return git_repository.commit_id(self.repository, f"{commit}^1")

    def subject(self, commit: str) -> str:
        return git_repository.subject(self.repository, commit)


def _is_of_torch(path: str) -> bool:
    return is_source(path.removeprefix("torch/"))
