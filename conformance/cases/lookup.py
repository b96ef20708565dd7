"""Finds cases by the names that a user has: an id, a part of it, a node id of pytest, a test file."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from conformance.cases.case import Case, CaseError
from conformance.cases.loader import NoCaseError, cases_in
from conformance.errors import ConformanceError, first_line

#: The folder with this package's own test files.
OPS = Path(__file__).parent.parent / "ops"

_NODE = re.compile(r"(test_\w+)(?:\[(.*)\])?")
_SHOWN = 3  # similar ids in a message


class UnknownCaseError(ConformanceError, LookupError):
    """A name that matches no case, or more than one. The message lists similar ids."""


def is_test_path(word: str) -> bool:
    """Whether a word of the command line is a test file or a folder, and not a pattern."""
    return word.endswith(".py") or Path(word).is_dir()


def cases_below(paths: Sequence[Path]) -> list[Case]:
    """The cases of these test files, and of all test files in these folders; sorted by file within a folder.

    Raises CaseError for a file that does not exist or cannot be imported, and for a file in `paths` without a case.
    """
    cases: list[Case] = []
    for path in paths:
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        for file in files:
            with contextlib.suppress(NoCaseError) if path.is_dir() else contextlib.nullcontext():
                cases += _cases(file).values()
    return cases


def matching_cases(cases: Iterable[Case], patterns: Sequence[str]) -> list[Case]:
    """The cases whose id contains one of the patterns (* and ? match anything); all cases if there is no pattern.

    Raises UnknownCaseError if there is no such case.
    """
    cases = list(cases)
    matches = [case for case in cases if not patterns or any(fnmatch.fnmatch(case.id, f"*{p}*") for p in patterns)]
    if not matches:
        message = f"no case matches {' or '.join(map(repr, patterns))}" if patterns else "there is no case"
        raise UnknownCaseError(f"{message}{_similar(patterns, cases)}")
    return matches


def find_case(name: str, targets: Collection[str]) -> tuple[Case, str]:
    """The case of a name, and the target that the name ends in ("" if it ends in none). A name is one of:

        flip/hflip-224-u8-contiguous                                   the id of a case of this package
        tests/test_flip.py::test_hflip[224-u8-contiguous-cuda_sm90]    a node id of pytest
        tests/test_flip.py::flip/hflip-224-u8-contiguous               an id, in a file

    Raises UnknownCaseError if no case or more than one has this name, and CaseError if the file does not exist or
    cannot be imported.
    """
    file, separator, rest = name.rpartition("::")
    cases = {case.id: case for case in (cases_below([_existing(file)]) if separator else _package_cases(rest))}
    node = _NODE.fullmatch(rest)
    wanted = "-".join(filter(None, (node[1].removeprefix("test_"), node[2]))) if node else rest
    for target in ("", *targets):
        id_ = wanted.removesuffix(f"-{target}") if target else wanted
        if target and id_ == wanted:
            continue
        matches = [case for case in cases.values() if id_ in (case.id, case.id.partition("/")[2])]
        if len(matches) == 1:
            return matches[0], target
        if matches:
            ids = ", ".join(case.id for case in matches)
            raise UnknownCaseError(f"{name!r} is the name of more than one case; write one of {ids}")
    where = f" in {file}" if separator else ""
    raise UnknownCaseError(f"there is no case {wanted!r}{where}{_similar([wanted], cases.values(), file)}")


def _package_cases(name: str) -> list[Case]:
    """The cases of the operator's file if the name begins with an operator, else of all files of this package."""
    operator, separator, _ = name.partition("/")
    file = OPS / f"test_{operator}.py"
    return cases_below([file if separator and file.is_file() else OPS])


def _existing(text: str) -> Path:
    """A file as pytest prints it: relative to this folder, else to the folder that holds the package."""
    outer = OPS.parent.parent / text
    return outer if not Path(text).exists() and outer.is_file() else Path(text)


def _cases(file: Path) -> dict[str, Case]:
    folder = str(file.resolve().parent)
    if not (file.parent / "__init__.py").exists() and folder not in sys.path:
        sys.path.insert(0, folder)  # as pytest does: a test file may import its neighbours
    try:
        return cases_in(file.resolve())
    except CaseError as error:
        if str(file.name) in str(error):
            raise
        raise CaseError(f"{file}: {error}") from error  # @case does not know the file
    except Exception as error:
        raise CaseError(f"{file} cannot be imported: {type(error).__name__}: {first_line(error)}") from error


def _similar(names: Sequence[str], cases: Iterable[Case], file: str = "") -> str:
    """The end of a message: ids that contain a name or are similar to it, else how to list all cases."""
    cases = list(cases)
    ids = [case.id for case in cases]
    similar = [id_ for name in names for id_ in ids if name in id_]
    similar += [
        id_ for name in names for id_ in difflib.get_close_matches(name, ids, _SHOWN, 0.6) if id_ not in similar
    ]
    if not similar:  # compare with the names of operators and functions alone
        known = sorted({name for case in cases for name in (case.operator, case.name)})
        close = {match for name in names for match in difflib.get_close_matches(name.partition("-")[0], known, 1)}
        similar = [case.id for case in cases if case.operator in close or case.name in close]
    if not similar:
        return f"; `{' '.join(['python -m conformance list', *filter(None, [file])])}` lists all"
    more = f" and {len(similar) - _SHOWN} more" if len(similar) > _SHOWN else ""
    return f"; nearest: {', '.join(similar[:_SHOWN])}{more}"
