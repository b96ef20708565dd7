"""The texts of torch's Python files in a folder, which are read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path


class PythonFiles(Mapping[str, str]):
    """Path below torch/ → text. `packages`: the folder that holds torch/."""

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
