"""The build backend of a part in parts/: setuptools, in a folder that has the part's files.

In a checkout, and in the sdist of `conformance`, all parts are in one package. The backend links what ci/parts.toml
gives to this part into a temporary folder and builds a wheel there: nothing is written into the checkout. A part has no
sdist.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from setuptools import build_meta

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "ci"))
import project_page  # noqa: E402

import parts  # noqa: E402 - after the line above

_SUFFIXES = (".py", ".typed", ".toml", ".cpp", ".h", ".json", ".css", ".js", ".html", ".jinja", ".svg", ".md")


def build_wheel(wheel_directory: str, config_settings: Any = None, _metadata: str | None = None) -> str:
    here, target = Path.cwd(), str(Path(wheel_directory).absolute())
    with _complete_folder(here):
        try:
            return build_meta.build_wheel(target, config_settings)
        finally:
            os.chdir(here)


def build_sdist(_sdist_directory: str, _config_settings: Any = None) -> str:
    raise SystemExit("a part has no sdist, that of conformance has all files: build it with `python -m build --wheel`")


def files_of(part: str) -> Iterator[Path]:
    """The files of a part, relative to the package."""
    table = parts.read()
    for file in sorted(parts.PACKAGE.rglob("*")):
        path = file.relative_to(parts.PACKAGE)
        is_outside = path.parts[0] in (*parts.OUTSIDE, "docs") or "__pycache__" in path.parts
        if file.is_file() and file.suffix in _SUFFIXES and not is_outside and parts.part_of(path, table) == part:
            yield path


@contextlib.contextmanager
def _complete_folder(here: Path) -> Iterator[None]:
    part = here.name
    version = project_page.version(ROOT)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("pyproject.toml", "README.md"):
            (folder / name).symlink_to(here / name)
        (folder / "LICENSE").symlink_to(ROOT / "LICENSE")
        (folder / "VERSION").write_text(version, encoding="utf-8")
        required = (here / "requirements.txt").read_text(encoding="utf-8")
        (folder / "requirements.txt").write_text(required.replace("{version}", version), encoding="utf-8")
        for path in files_of(part):
            link = folder / "conformance" / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(parts.PACKAGE / path)
        os.chdir(folder)
        yield
