"""The two sides of a blame: an environment with its own torch, or Python files that need the binaries of another."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from conformance.devices.environment import TorchBuild, build_in, torch_build
from conformance.sources.laid_tree import lay
from conformance.sources.torch_source import SourceError, installed_files, parse_source

#: Names the installed torch.
INSTALLED = "installed"


@dataclass(frozen=True)
class Side:
    """`packages`: the folder that comes first on Python's path. `build`: the torch whose binaries are used."""

    name: str
    packages: Path
    build: TorchBuild

    @property
    def torch(self) -> Path:
        return self.packages / "torch"

    def text(self, path: str) -> str:
        """A Python file below torch/; "" if it has none."""
        file = self.torch / path
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def parse_side(word: str, option: str) -> Side:
    """The side that a word names: INSTALLED, a virtual environment, its python, its site-packages, PATH or PATH@COMMIT.

    Python files without binaries are laid over the installed torch. Raises SourceError, GitError and LayError.
    """
    installed = torch_build()
    if word == INSTALLED:
        return Side(f"torch {installed.version}", installed.folder.parent, installed)
    path = Path(word).expanduser()
    for folder in (path, path.parent.parent):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        if (packages := folder / "lib" / version / "site-packages" / "torch").is_dir():
            build = build_in(packages)
            return Side(f"torch {build.version} of {folder}", packages.parent.absolute(), build)
        if any(folder.glob("lib/python*/site-packages/torch")):
            raise SourceError(f"{option} {word}: its Python is not {version}, with which this command runs: use that")
    if (path / "torch" / "version.py").is_file() and _has_binaries(path / "torch"):
        build = build_in(path / "torch")
        return Side(f"torch {build.version} of {path}", path.absolute(), build)
    source = parse_source(word, option)
    return Side(source.name, lay(source, installed).folder, installed)


def _has_binaries(torch: Path) -> bool:
    """Whether a folder torch/ was built: a copy of its Python files may have an empty lib/."""
    return any((torch / "lib").glob("*torch*"))


def changed_files(old: Side, new: Side) -> list[str]:
    """The Python files below torch/ that both have, with different texts."""
    one, other = installed_files(old.torch), installed_files(new.torch)
    return sorted(path for path in one.keys() & other.keys() if path.endswith(".py") and one[path] != other[path])
