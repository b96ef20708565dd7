"""The project that a command is called in: its top folder, and its files of cases.

The top folder is pytest's rootdir, and the files are those that pytest collects: `testpaths`, `python_files`,
`norecursedirs` and `pythonpath` of the project's ini file count. Nothing is imported to find them.
"""

from __future__ import annotations

import configparser
import fnmatch
import functools
import glob
import itertools
import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Files with pytest's ini options, the first one first, and the table that holds them. Without one, all of it.
_INI_FILES = {
    "pytest.toml": ("pytest",),
    ".pytest.toml": ("pytest",),
    "pytest.ini": ("pytest",),
    ".pytest.ini": ("pytest",),
    "pyproject.toml": ("tool.pytest", "tool.pytest.ini_options"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}
#: These are the project's ini file even if they say nothing.
_ALWAYS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
#: What tells the top folder of a project that has no ini file: the first group that is found anywhere above, as pytest
#: does it. Of the names of one group, the nearest counts.
_MARKS = (("setup.py",), ("pyproject.toml",))
#: These come last, and mark neither the home folder nor the one for temporary files: a run there, or settings under
#: git, do not make all projects below it one project.
_WEAK_MARKS = (".conformance", ".git")
#: pytest's own defaults.
_PATTERNS = ("test_*.py", "*_test.py")
_SKIPPED = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")
#: A search ends after so many folders: a huge repository is no reason to wait. `testpaths` narrows it.
MAX_FOLDERS = 3000
#: The same where nothing says that the folder is a project's, such as a home folder.
MAX_UNMARKED_FOLDERS = 300
#: A file of cases has one of these words: the import, or the decorator that a module of the project passes on.
_WORDS = (b"conformance", b"@case")


@dataclass(frozen=True)
class CaseFiles:
    """The result of a search. `cut_off`: whether it ended before all folders were looked at."""

    files: tuple[Path, ...]
    cut_off: bool = False


@dataclass(frozen=True)
class Project:
    """`root`: the top folder. `has_marks`: whether an ini file or another mark says so; else it is the folder that was
    asked for. `tests`: where pytest collects. `patterns`: of file names. `skipped`: patterns of folder names.
    `import_folders`: those of `pythonpath`. `ini`: pytest's ini options, as they are written.
    """

    root: Path
    has_marks: bool = True
    tests: tuple[Path, ...] = ()
    patterns: tuple[str, ...] = _PATTERNS
    skipped: tuple[str, ...] = _SKIPPED
    import_folders: tuple[Path, ...] = ()
    ini: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def case_files(self, *, below: Path | None = None, stems: Iterable[str] = ()) -> CaseFiles:
        """The files whose text looks like one of cases, sorted within each folder of tests.

        `below`: look in this whole folder instead of where pytest collects. `stems`: only files with such a name,
        without .py.
        """
        wanted = set(stems)
        places = (below,) if below else self.tests or (self.root,)
        found: dict[Path, None] = {}
        limit = MAX_FOLDERS if self.has_marks else MAX_UNMARKED_FOLDERS
        folders, seen = 0, set[Path]()
        for place in places:
            for folder, names in [(place.parent, [place.name])] if place.is_file() else self._folders(place, seen):
                folders += 1
                if folders > limit and not below:
                    return CaseFiles(tuple(found), cut_off=True)
                for name in sorted(names):
                    path = folder / name
                    if (not wanted or path.stem in wanted) and self._may_have_cases(path, named=place == path):
                        found[path] = None
        return CaseFiles(tuple(found))

    def _folders(self, top: Path, seen: set[Path]) -> Iterator[tuple[Path, list[str]]]:
        """Yields each folder that pytest enters, and the names of its files. `seen`: folders that are left out."""
        for name, below, names in os.walk(top):
            folder = Path(name)
            if folder in seen:
                below.clear()
                continue
            seen.add(folder)
            below[:] = sorted(each for each in below if not self._is_skipped(folder / each))
            yield folder, names

    def _is_skipped(self, folder: Path) -> bool:
        named = any(fnmatch.fnmatch(folder.name, each) for each in (*self.skipped, "__pycache__"))
        return named or os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110 # a folder that is closed to us has none

    def _may_have_cases(self, path: Path, *, named: bool) -> bool:
        """Whether a file's name and text fit. `named`: testpaths names the file itself."""
        if not (path.suffix == ".py" and (named or any(fnmatch.fnmatch(path.name, each) for each in self.patterns))):
            return False
        try:
            text = path.read_bytes()
        except OSError:
            return False
        return any(word in text for word in _WORDS)

    def import_folders_of(self, file: Path) -> list[Path]:
        """The folders that pytest puts on sys.path before it imports a test file; the first one last."""
        above = [folder for folder in reversed(file.parents) if _is_in(folder, self.root)]
        with_conftest = [_outside_packages(folder) for folder in above if (folder / "conftest.py").is_file()]
        return list(dict.fromkeys([*self.import_folders, *with_conftest, _outside_packages(file.parent)]))


def _outside_packages(folder: Path) -> Path:
    """The nearest folder that is no package: what the names of modules in `folder` are relative to."""
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def project_of(folder: Path) -> Project:
    """The project that a folder is in."""
    return _project(folder.resolve())


@functools.cache
def _project(folder: Path) -> Project:
    above = (folder, *folder.parents)
    for each in above:
        for name in _INI_FILES:
            options = _options(each / name)
            if options is not None:
                return _with_options(each, folder, options)
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 (Path's own raises where a user has no home)
    shared = {home.resolve(), Path(tempfile.gettempdir()).resolve()}
    below = tuple(itertools.takewhile(lambda each: each not in shared, above))
    places = [*((mark, above) for mark in _MARKS), (_WEAK_MARKS, below)]
    marked = next(
        (each for marks, folders in places for each in folders if any((each / mark).exists() for mark in marks)), None
    )
    return Project(marked or folder, has_marks=marked is not None)


def _with_options(root: Path, folder: Path, options: Mapping[str, Any]) -> Project:
    tests = [path for text in _words(options.get("testpaths")) for path in _matches(root, text)]
    if tests and folder != root and not any(_is_in(folder, each) or _is_in(each, folder) for each in tests):
        tests.append(folder)  # the user is in a folder of its own, beside those of testpaths
    return Project(
        root,
        tests=tuple(tests),
        patterns=tuple(_words(options.get("python_files"))) or _PATTERNS,
        skipped=tuple(_words(options.get("norecursedirs"))) or _SKIPPED,
        import_folders=tuple(root / text for text in _words(options.get("pythonpath"))),
        ini=options,
    )


def _matches(root: Path, pattern: str) -> list[Path]:
    """What a word of testpaths names, as pytest finds it: a path or a pattern, absolute or relative to `root`."""
    found = sorted(glob.iglob(pattern, root_dir=root, recursive=True))  # noqa: PTH207 # Path.glob refuses some
    return [Path(os.path.normpath(root / each)) for each in found]


def ini_words(project: Project, name: str) -> list[str]:
    """The words of an ini option of a project; none where it is not set."""
    return _words(project.ini.get(name))


def _is_in(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _words(value: Any) -> list[str]:
    """An ini option of several words: text, or a list in TOML. None for a value that pytest refuses."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:  # a quote without its other end
            return value.split()
    return [str(each) for each in value] if isinstance(value, list) else []


def _options(file: Path) -> Mapping[str, Any] | None:
    """The options of pytest in a file; None if it is not the project's ini file, or cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".toml":
            tables: Mapping[str, Any] = _flat(tomllib.loads(text))
        else:
            parser = configparser.RawConfigParser(strict=False)
            parser.read_string(text)
            tables = {name: dict(parser[name]) for name in parser.sections()}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, configparser.Error):
        return {} if file.name in _ALWAYS and file.is_file() else None
    named = [tables[name] for name in _INI_FILES[file.name] if name in tables]
    if named:
        return {key: value for table in named for key, value in table.items()}
    return {} if file.name in _ALWAYS else None


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables that may hold pytest's options, by their names: {"tool.pytest": {…}}."""
    tool = tables.get("tool", {})
    pytest = tool.get("pytest", {}) if isinstance(tool, Mapping) else {}
    found = {"pytest": tables.get("pytest"), "tool.pytest": pytest}
    found["tool.pytest.ini_options"] = pytest.get("ini_options") if isinstance(pytest, Mapping) else None
    return {name: table for name, table in found.items() if isinstance(table, Mapping) and table}
