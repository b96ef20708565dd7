"""Cases by the names that people have at hand: an id, a node id of pytest, or what a failure printed."""

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

#: The operators that the package brings.
OPS = Path(__file__).parent.parent / "ops"

_NODE = re.compile(r"(test_\w+)(?:\[(.*)\])?")
_NAMED = 3  # as many nearest matches as a message names


class UnknownCaseError(ConformanceError, LookupError):
    """A name that is no case's; the message names the nearest."""


def is_test_path(word: str) -> bool:
    """Whether a word of the command line is a test file or a folder of them, rather than a pattern."""
    return word.endswith(".py") or Path(word).is_dir()


def cases_below(paths: Sequence[Path]) -> list[Case]:
    """The cases of test files, and of all test files in folders, in the order of the files and of their declarations.

    Raises CaseError for a file that is not there, cannot be imported, or was named and holds no case.
    """
    found: list[Case] = []
    for path in paths:
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        for file in files:
            with contextlib.suppress(NoCaseError) if path.is_dir() else contextlib.nullcontext():
                found += _cases(file).values()
    return found


def matching_cases(cases: Iterable[Case], patterns: Sequence[str]) -> list[Case]:
    """Those whose id holds one of the patterns, in which * and ? stand for anything; all where there is no pattern.

    Raises UnknownCaseError where there is none.
    """
    cases = list(cases)
    found = [case for case in cases if not patterns or any(fnmatch.fnmatch(case.id, f"*{p}*") for p in patterns)]
    if not found:
        raise UnknownCaseError(f"no case{_said(patterns)}{_near(patterns, cases)}")
    return found


def find_case(word: str, targets: Collection[str]) -> tuple[Case, str]:
    """A case and the target that its name ends in, "" for none.

        flip/hflip-224-u8-contiguous                       the id, among the operators that the package brings
        tests/test_flip.py::test_hflip[224-u8-contiguous-cuda_sm90]         a node id of pytest
        tests/test_flip.py::flip/hflip-224-u8-contiguous                     an id in a file

    Raises UnknownCaseError naming the nearest, and CaseError for a file that is not there or cannot be imported.
    """
    file, separator, name = word.rpartition("::")
    cases = {case.id: case for case in (cases_below([_existing(file)]) if separator else _of_package(name))}
    node = _NODE.fullmatch(name)
    wanted = "-".join(filter(None, (node[1].removeprefix("test_"), node[2]))) if node else name
    for target in ("", *targets):
        without = wanted.removesuffix(f"-{target}") if target else wanted
        if target and without == wanted:
            continue
        found = [case for case in cases.values() if without in (case.id, case.id.partition("/")[2])]
        if len(found) == 1:
            return found[0], target
        if found:
            raise UnknownCaseError(f"{word!r} is more than one case: {', '.join(case.id for case in found)}")
    where = f" in {file}" if separator else ""
    raise UnknownCaseError(f"there is no case {wanted!r}{where}{_near([wanted], cases.values(), file)}")


def _said(patterns: Sequence[str]) -> str:
    return f" matches {' or '.join(map(repr, patterns))}" if patterns else " is there"


def _of_package(name: str) -> list[Case]:
    """The cases of the file that the id names; of all files where it names none, for one without its operator."""
    operator, separator, _ = name.partition("/")
    file = OPS / f"test_{operator}.py"
    return cases_below([file if separator and file.is_file() else OPS])


def _existing(text: str) -> Path:
    """A file as pytest printed it: relative to here, else to the folder that holds the package."""
    outer = OPS.parent.parent / text
    return outer if not Path(text).exists() and outer.is_file() else Path(text)


def _cases(file: Path) -> dict[str, Case]:
    folder = str(file.resolve().parent)
    if not (file.parent / "__init__.py").exists() and folder not in sys.path:
        sys.path.insert(0, folder)  # as pytest does: a test file may import what is beside it
    try:
        return cases_in(file.resolve())
    except CaseError as error:
        if str(file.name) in str(error):
            raise
        raise CaseError(f"{file}: {error}") from error  # raised by the declaration, which knows its function alone
    except Exception as error:
        raise CaseError(f"{file} cannot be imported: {type(error).__name__}: {first_line(error)}") from error


def _near(wanted: Sequence[str], cases: Iterable[Case], file: str = "") -> str:
    """Ids that hold a wanted text or are like it; where none is, those whose operator or function is like it."""
    cases = list(cases)
    ids = [case.id for case in cases]
    near = [case for word in wanted for case in ids if word in case]
    near += [case for word in wanted for case in difflib.get_close_matches(word, ids, _NAMED, 0.6) if case not in near]
    if not near:
        names = sorted({name for case in cases for name in (case.operator, case.name)})
        like = {name for word in wanted for name in difflib.get_close_matches(word.partition("-")[0], names, 1)}
        near = [case.id for case in cases if case.operator in like or case.name in like]
    more = f" and {len(near) - _NAMED} more" if len(near) > _NAMED else ""
    return (
        f"; nearest: {', '.join(near[:_NAMED])}{more}"
        if near
        else f"; `{' '.join(['python -m conformance list', *filter(None, [file])])}` names all"
    )
