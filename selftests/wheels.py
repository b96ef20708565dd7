"""The distributions, built once for a session and all its workers, and virtual environments with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock
from suites import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "ci"))
import examples

_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
#: A venv sees the editable installation of this checkout beside torch: pip must not take it for the wheel.
_VENV_PIP = ["--no-deps", "--no-index", "--ignore-installed"]


@dataclass(frozen=True)
class Distributions:
    """What `python -m build` made of each distribution.

    `log`: all that they printed. `sources`: the names of all files in the checkout that they were built from.
    """

    folder: Path
    log: str
    sources: frozenset[str]

    @property
    def parts(self) -> list[Path]:
        """The wheels without the cases."""
        return [each for each in sorted(self.folder.glob("*.whl")) if each != self.suite]

    @property
    def harness(self) -> Path:
        return self._one("conformance-*.whl")

    @property
    def generator(self) -> Path:
        return self._one("conformance_generator-*.whl")

    @property
    def suite(self) -> Path:
        return self._one("conformance_suite-*.whl")

    @property
    def harness_sdist(self) -> Path:
        return self._one("conformance-*.tar.gz")

    @property
    def suite_sdist(self) -> Path:
        return self._one("conformance_suite-*.tar.gz")

    def _one(self, pattern: str) -> Path:
        [file] = self.folder.glob(pattern)
        return file


@dataclass(frozen=True)
class Venv:
    """A virtual environment that sees torch and pytest of this one, and neither this checkout nor its plugin."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def pip(self, *words: str) -> None:
        subprocess.run([*_PIP, "--python", self.python, *words], check=True, stdin=subprocess.DEVNULL)

    def install(self, *wheels: Path) -> None:
        self.pip("install", *_VENV_PIP, *map(str, wheels))


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first worker to ask for it makes; the others wait."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = base / name, base / f"{name}.done"
    with FileLock(base / f"{name}.lock"):
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def copy_checkout(folder: Path) -> None:
    """Copies what git tracks or would add, as a clean checkout has it; without git, as in an sdist, everything."""
    folder.mkdir(parents=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        shutil.copytree(REPOSITORY, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        return
    for name in listed.stdout.split("\0"):
        if name and (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)


def build(folder: Path) -> None:
    """Builds all distributions from a clean checkout into folder/dist, each wheel from its sdist if it has one."""
    checkout = folder / "checkout"
    copy_checkout(checkout)
    sources = [path.relative_to(checkout).as_posix() for path in checkout.rglob("*") if path.is_file()]
    (folder / "sources.txt").write_text("\n".join(sources), encoding="utf-8")
    log = []
    for project in (*examples.PARTS, "suite"):
        kind = ["--wheel"] if project.startswith("parts/") else []
        command = [sys.executable, "-m", "build", "--no-isolation", *kind, "--outdir", str(folder / "dist"), project]
        ran = subprocess.run(
            command,
            cwd=checkout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout
        log.append(ran.stdout)
    (folder / "log.txt").write_text("".join(log), encoding="utf-8")
    shutil.rmtree(checkout)


def thinned(wheel: Path, folder: Path) -> Path:
    """A copy of a wheel in a folder, with the stored code of one operator alone: pip is slow with many files."""

    def is_kept(name: str) -> bool:
        return "/expected_code/" not in name or "/flip/" in name

    folder.mkdir()
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(folder / wheel.name, "w") as thin:
        for name in filter(is_kept, whole.namelist()):
            content = whole.read(name)
            if name.endswith(".dist-info/RECORD"):
                content = b"".join(line for line in content.splitlines(keepends=True) if is_kept(line.decode()))
            thin.writestr(name, content)
    return folder / wheel.name


def install_to(folder: Path, wheels: Sequence[Path]) -> None:
    subprocess.run([*_PIP, "install", *_VENV_PIP, "--target", str(folder), *map(str, wheels)], check=True)


def new_venv(folder: Path) -> Venv:
    examples.new_environment(folder)
    return Venv(folder)
