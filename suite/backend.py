"""The build backend of `conformance-suite`: setuptools, in a folder that has the files of this distribution.

In a checkout, the cases and what is stored for them are in `../conformance`, beside the harness. The backend links what
belongs to this distribution into a temporary folder and builds there: nothing is written into the checkout. The sdist
holds the files themselves, so there the backend builds in place.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from setuptools import build_meta

_OWN = ("MANIFEST.in", "README.md", "backend.py", "pyproject.toml", "setup.py")
#: Place in the sdist → place in the checkout.
_SHARED = {
    "LICENSE": "LICENSE",
    "ci/project_page.py": "ci/project_page.py",
    "conformance/__init__.py": "conformance/__init__.py",  # has the version; the wheel leaves it out
    "conformance/coverage_maps": "conformance/coverage_maps",
    "conformance/expected_binary": "conformance/expected_binary",
    "conformance/expected_code": "conformance/expected_code",
    "conformance/known_failures": "conformance/known_failures",
    "conformance/models": "conformance/models",
    "conformance/ops": "conformance/ops",
    "conformance/sweep": "conformance/sweep",
    "harness/pyproject.toml": "pyproject.toml",  # has the address of the repository
}

#: Pages about the cases. The setup.py of the harness leaves them out.
_PAGES = ("known-bugs.md", "changes-*.md", "flip.md", "kinds.md", "missed-optimisations.md")


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    with _complete_folder(sdist_directory) as target:
        return build_meta.build_sdist(target, config_settings)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    with _complete_folder(wheel_directory) as target:
        return build_meta.build_wheel(target, config_settings, metadata_directory)


@contextlib.contextmanager
def _complete_folder(target: str) -> Iterator[str]:
    """Changes to a folder that has all files of the distribution. Gives the absolute path of `target`."""
    here, target = Path.cwd(), str(Path(target).absolute())
    if (here / "conformance").is_dir():
        yield target
        return
    with tempfile.TemporaryDirectory() as temporary:
        for name in _OWN:
            (Path(temporary) / name).symlink_to(here / name)
        pages = {page for pattern in _PAGES for page in (here.parent / "docs").glob(pattern)}
        sources = _SHARED | {f"conformance/docs/{page.name}": f"docs/{page.name}" for page in pages}
        for name, source in sources.items():
            link = Path(temporary) / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(here.parent / source)
        os.chdir(temporary)
        try:
            yield target
        finally:
            os.chdir(here)
