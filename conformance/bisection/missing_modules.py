"""Python files of another torch: their texts, and modules that the imported torch lacks, for exchanged functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from conformance.sources.executed_lines import below_torch


class MissingModules(MetaPathFinder):
    """Finds Python modules of torch below `packages`. Asked last, so it finds only what the imported torch lacks.

    Until `is_open` is set, it finds nothing and notes what is asked for. It finds that for torch's own code alone:
    another who asks for a module that is not there, and goes on without it, is code for several versions of torch.
    """

    def __init__(self, packages: Path) -> None:
        self._packages = packages
        self._optional: set[str] = set()
        self.is_open = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - Python gives it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if not fullname.startswith("torch."):
            return None
        if fullname in self._optional and not _is_asked_by_torch():
            return None
        if not self.is_open:
            self._optional.add(fullname)
            return None
        folder = self._packages.joinpath(*fullname.split(".")[:-1])
        found = PathFinder.find_spec(fullname, [str(folder)])
        return found if found and (found.origin or "").endswith(".py") else None

    def install(self) -> None:
        """For the rest of the process."""
        sys.meta_path.append(self)


def _is_asked_by_torch() -> bool:
    """Whether the code that imports is torch's."""
    frame = sys._getframe(1)  # noqa: SLF001 - who asks is not told
    while frame.f_back and (frame.f_code.co_filename == __file__ or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    return bool(below_torch(frame.f_code.co_filename))


class PythonFiles(Mapping[str, str]):
    """Path below torch/ → text, which is read when it is asked for. `packages`: the folder that holds torch/."""

    def __init__(self, packages: Path) -> None:
        self._torch = packages / "torch"
        self._texts: dict[str, str] = {}

    def __getitem__(self, path: str) -> str:
        if path not in self._texts:
            try:
                self._texts[path] = (self._torch / path).read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                raise KeyError(path) from None
        return self._texts[path]

    def __iter__(self) -> Iterator[str]:
        return (str(each.relative_to(self._torch)) for each in self._torch.rglob("*.py"))

    def __len__(self) -> int:
        return sum(1 for _ in self)
