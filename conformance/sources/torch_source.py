"""A source of PyTorch's Python files: `PATH`, a folder that holds torch/, or `PATH@COMMIT`, a commit of a checkout."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import ConformanceError
from conformance.sources import git_repository

#: Files beside the Python files that belong to them: templates and tables. A change of them changes generated code.
SUFFIXES = (".py", ".jinja", ".json", ".yaml")
#: Below torch/: what a build writes. The installed torch keeps its own.
_BUILT = ("_C/", "bin/", "include/", "lib/", "share/", "test/", "csrc/", "testing/_internal/generated/")
_BUILT_FILES = ("version.py", "_inductor/kernel/vendored_templates/cutedsl_grouped_gemm.py")


class SourceError(ConformanceError, ValueError):
    """A source that does not exist, or is no PyTorch."""


@dataclass(frozen=True)
class TorchSource:
    """`folder`: holds torch/. `commit`: the whole id, or "" for the files as they are in the folder.

    `state`: for the files in the folder, the commit that is checked out, with "-dirty" where files below torch/ differ
    from it; "" outside a repository.
    """

    folder: Path
    commit: str = ""
    state: str = ""

    @property
    def name(self) -> str:
        """`/src/pytorch at 1a2b3c4d5e6f`, or `/src/pytorch`."""
        commit, dirty = self.commit or self.state.removesuffix("-dirty"), self.state.endswith("-dirty")
        if not commit:
            return str(self.folder)
        return f"{self.folder} at {commit[:12]}{' with changes that are not committed' if dirty else ''}"

    def at(self, commit: str) -> TorchSource:
        """Another commit of the same repository. `commit`: a whole id."""
        return TorchSource(self.folder, commit)

    def to_json(self) -> dict[str, str]:
        return {"path": str(self.folder), "commit": self.commit or self.state}

    @functools.cached_property
    def files(self) -> Mapping[str, str]:
        """Path below torch/ → id of its content, for the files that a build takes as they are.

        Raises GitError, and SourceError for a folder whose files cannot be read.
        """
        if self.commit:
            found = git_repository.blobs_below(self.folder, self.commit, "torch")
            below = ((path.removeprefix("torch/"), blob) for path, blob in found.items())
            return {path: blob for path, blob in below if is_source(path)}
        return {path: blob_id(file.read_bytes()) for path, file in _source_files(self.folder / "torch")}

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """The contents of files, in their order. `paths`: keys of `files`. Raises GitError."""
        if self.commit:
            yield from git_repository.contents(self.folder, [self.files[path] for path in paths])
        else:
            yield from ((self.folder / "torch" / path).read_bytes() for path in paths)


def parse_source(word: str, option: str) -> TorchSource:
    """The source that a word of the command line names. `option`: its name, for messages.

    Raises SourceError and GitError.
    """
    path, commit = word, ""
    if not Path(word).expanduser().is_dir() and "@" in word:
        path, _, commit = word.rpartition("@")
    folder = Path(path).expanduser().absolute()
    if not folder.is_dir():
        raise SourceError(f"{option}: there is no folder {path}; name a checkout of PyTorch: PATH or PATH@COMMIT")
    if "@" in word and path != word and not commit:
        raise SourceError(f"{option} {word}: a commit has to follow the @")
    if commit:
        source = TorchSource(folder, git_repository.commit_id(folder, commit))
        is_torch = "__init__.py" in source.files
    else:
        source = TorchSource(folder, state=_state(folder))
        is_torch = (folder / "torch" / "__init__.py").is_file()
    if not is_torch:
        raise SourceError(
            f"{option}: {source.name} has no torch/__init__.py; name the folder that holds torch/, as a checkout of "
            "PyTorch does"
        )
    return source


def _state(folder: Path) -> str:
    if not git_repository.is_repository(folder):
        return ""
    try:
        head = git_repository.commit_id(folder, "HEAD")
        changed = git_repository.git(folder, "status", "--porcelain", "--untracked-files=no", "--", "torch")
    except git_repository.GitError:  # no commit yet
        return ""
    return f"{head}-dirty" if changed else head


def is_source(path: str) -> bool:
    """Whether a file below torch/ is taken from a source, and is not a part of a build."""
    return path.endswith(SUFFIXES) and not path.startswith(_BUILT) and path not in _BUILT_FILES


def _source_files(torch: Path, *, through_links: bool = False) -> Iterator[tuple[str, Path]]:
    """Path below torch/ and file, sorted. `through_links`: also of folders that are links, as in a laid tree."""
    for folder, folders, names in os.walk(torch, followlinks=through_links):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            file = Path(folder, name)
            path = file.relative_to(torch).as_posix()
            if is_source(path):
                yield path, file


@functools.cache
def installed_files(torch: Path) -> Mapping[str, str]:
    """The same as `TorchSource.files`, of the folder of an installed torch or of a laid tree."""
    return {path: blob_id(file.read_bytes()) for path, file in _source_files(torch, through_links=True)}


def blob_id(content: bytes) -> str:
    """Git's id of a content, in a repository with SHA-1."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
