"""Finds cases by the names that a user has: an id, a part of it, a node id of pytest, a test file.

Names are looked for in the project of the current folder first, and then in this package.
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.cases import run_values, sample_selection
from conformance.cases.case import Case, CaseError
from conformance.cases.loader import NoCaseError, cases_in
from conformance.cases.project import Project, project_of
from conformance.cases.roots import CASE_ROOTS, OPS, is_own_case_file
from conformance.errors import INSTALL_SUITE, ConformanceError, SuiteMissingError, first_line

_NODE = re.compile(r"(test_\w+)(?:\[(.*)\])?")
_SHOWN = 3  # similar ids in a message


class UnknownCaseError(ConformanceError, LookupError):
    """A name that matches no case, or more than one. The message lists similar ids."""


@dataclass
class FoundCases:
    """`cases`: in the order of their files. `unread`: why files could not be imported. `looked_in`: where, in words."""

    cases: list[Case] = field(default_factory=list)
    unread: list[CaseError] = field(default_factory=list)
    looked_in: str = ""


def suite_folder() -> Path:
    """The folder with this package's test files. Raises SuiteMissingError where only the harness is installed."""
    if not _has_suite():
        raise SuiteMissingError
    return OPS


def _has_suite() -> bool:
    return (OPS / "__init__.py").is_file()  # uninstalling can leave empty folders


def project_here() -> Project:
    """The project of the current folder."""
    return project_of(Path.cwd())


def is_test_path(word: str) -> bool:
    """Whether a word of the command line is a test file or a folder, and not a pattern."""
    return word.endswith(".py") or Path(word).is_dir()


def cases_below(paths: Sequence[Path]) -> list[Case]:
    """The cases of these test files, and of all test files in these folders; sorted by file within a folder.

    Raises CaseError for a file that does not exist or cannot be imported, and for a file in `paths` without a case.
    """
    cases: list[Case] = []
    for path in paths:
        files = _searched(path).case_files(below=path).files if path.is_dir() else [path]
        for file in files:
            with contextlib.suppress(NoCaseError) if path.is_dir() else contextlib.nullcontext():
                cases += _cases(file).values()
    return cases


def _searched(folder: Path) -> Project:
    """The project whose options say which files in a folder are test files. This package's own folder has none."""
    return Project(folder) if is_own_case_file(folder) else project_of(folder)


def project_cases(stems: Iterable[str] = ()) -> FoundCases:
    """The cases of the current folder's project. `stems`: only of files with such a name, without .py.

    A file that cannot be imported is noted, and the others are read.
    """
    project = project_here()
    listed = project.case_files(stems=stems)
    found = FoundCases(looked_in=f"{project.root} ({_count(len(listed.files), 'file')} of cases)")
    if listed.cut_off:
        found.looked_in += ", where not all folders were looked at: set pytest's `testpaths`"
    for file in listed.files:
        _read(file, found)
    return found


def _read(file: Path, found: FoundCases) -> None:
    try:
        found.cases += _cases(file).values()
    except NoCaseError:
        pass  # its text only looks like that of a file of cases
    except CaseError as error:
        found.unread.append(error)


def package_cases() -> FoundCases:
    """All cases of this package; none where only the harness is installed. Raises CaseError for an unreadable file."""
    return FoundCases(cases_below([OPS]) if _has_suite() else [], looked_in=_package_place())


def _package_place() -> str:
    where = "the cases of conformance"
    return where if _has_suite() else f"{where}, which are not installed ({INSTALL_SUITE})"


def matching_cases(cases: Iterable[Case], patterns: Sequence[str]) -> list[Case]:
    """The cases whose id contains one of the patterns (* and ? match anything); all cases if there is no pattern.

    Raises UnknownCaseError if there is no such case.
    """
    cases = list(cases)
    matches = _matching(cases, patterns)
    if not matches:
        raise UnknownCaseError(f"{_no_match(patterns)}{_similar(patterns, cases)}")
    return matches


def selected_cases(paths: Sequence[Path], patterns: Sequence[str], *, package: bool = False) -> FoundCases:
    """The cases of the paths that match the patterns. Without paths: those of the project, else those of this package.

    `package`: only those of this package. `looked_in` names where the cases are from. Raises CaseError as `cases_below`
    does, UnknownCaseError if there is no such case, and SuiteMissingError.
    """
    if package:
        suite_folder()
    if paths:
        return FoundCases(matching_cases(cases_below(paths), patterns), looked_in=", ".join(map(str, paths)))
    own = FoundCases() if package else project_cases()
    if matches := _matching(own.cases, patterns):
        return FoundCases(matches, own.unread, own.looked_in)
    others = package_cases()
    if matches := _matching(others.cases, patterns):
        return FoundCases(matches, own.unread, others.looked_in)
    places = " and in ".join(filter(None, (own.looked_in, others.looked_in)))
    raise UnknownCaseError(
        f"{_no_match(patterns)}{_similar(patterns, [*own.cases, *others.cases])}; looked in {places}{_unread(own)}"
    )


def find_case(name: str, targets: Collection[str]) -> tuple[Case, str]:
    """The case of a name, and the target that the name ends in ("" if it ends in none). A name is one of:

        loss/mse-f32                                                   the id of a case of the project here
        flip/hflip-224-u8-contiguous                                   the id of a case of this package
        tests/test_flip.py::test_hflip[224-u8-contiguous-cuda_sm90]    a node id of pytest
        tests/test_flip.py::flip/hflip-224-u8-contiguous               an id, in a file
        tests/test_loss.py                                             a file with one case

    Raises UnknownCaseError if no case or more than one has this name, and CaseError if the file does not exist or
    cannot be imported.
    """
    file, separator, rest = name.rpartition("::")
    if not separator and rest.endswith(".py"):
        return _only_case(rest), ""
    node = _NODE.fullmatch(rest)
    wanted = "-".join(filter(None, (node[1].removeprefix("test_"), node[2]))) if node else rest
    if selection := sample_selection.of_case(wanted):
        run_values.use(selection=selection)
    if separator:
        cases = cases_below([_existing(file)])
        if match := _named(name, wanted, cases, targets):
            return match
        raise UnknownCaseError(f"there is no case {wanted!r} in {file}{_similar([wanted], cases, file)}")
    operator = wanted.partition("/")[0] if "/" in wanted else ""
    own = project_cases((operator, f"test_{operator}") if operator else ())
    if match := _named(name, wanted, own.cases, targets):
        return match
    package = FoundCases(_package_cases(wanted))
    if match := _named(name, wanted, package.cases, targets):
        return match
    if operator and own.unread:
        raise own.unread[0]
    own = project_cases()
    places = f"{own.looked_in} and in {_package_place()}"
    similar = _similar([wanted], [*own.cases, *package.cases])
    raise UnknownCaseError(f"there is no case {wanted!r}{similar}; looked in {places}{_unread(own)}")


def shadowed_line(case: Case) -> str:
    """A line that says that the package has another case with this id; "" if it has none."""
    file = OPS / f"test_{case.operator}.py"
    if not file.is_file() or case.file.resolve() == file.resolve():
        return ""
    try:
        known = _cases(file)
    except CaseError:
        return ""
    if case.id not in known:
        return ""
    return f"{case.id} is the case of {case.file}; conformance has one with the same id: {file}::{case.id}"


def _named(name: str, wanted: str, cases: Sequence[Case], targets: Collection[str]) -> tuple[Case, str] | None:
    """The case with the wanted id, and the target that it ends in. Raises UnknownCaseError if there are several."""
    for target in ("", *targets):
        id_ = wanted.removesuffix(f"-{target}") if target else wanted
        if target and id_ == wanted:
            continue
        matches = [case for case in cases if id_ in (case.id, case.id.partition("/")[2])]
        if len(matches) == 1:
            return matches[0], target
        if matches:
            ids = [case.id for case in matches]
            names = ids if len(set(ids)) == len(ids) else [f"{case.file}::{case.id}" for case in matches]
            raise UnknownCaseError(f"{name!r} is the name of more than one case; write one of {', '.join(names)}")
    return None


def _only_case(file: str) -> Case:
    """The only case of a file. Raises UnknownCaseError if it has several."""
    cases = cases_below([_existing(file)])
    if len(cases) > 1:
        more = f" and {len(cases) - _SHOWN} more" if len(cases) > _SHOWN else ""
        names = ", ".join(f"{file}::{case.id}" for case in cases[:_SHOWN])
        raise UnknownCaseError(f"{file} has {len(cases)} cases; write one of {names}{more}")
    return cases[0]


def _package_cases(name: str) -> list[Case]:
    """The cases of the operator's file if the name begins with an operator, else of all files of this package."""
    if not _has_suite():
        return []
    operator, separator, _ = name.partition("/")
    files = [folder / f"test_{operator}.py" for folder in CASE_ROOTS] if separator else []
    return cases_below([next((file for file in files if file.is_file()), OPS)])


def _existing(text: str) -> Path:
    """A file as pytest prints it: relative to this folder, to the project's, or to the one that holds this package."""
    for folder in (Path(), project_here().root, OPS.parent.parent):
        if (folder / text).is_file():
            return folder / text
    return Path(text)


def _cases(file: Path) -> dict[str, Case]:
    try:
        return cases_in(file.resolve())
    except CaseError as error:
        if str(file.name) in str(error):
            raise
        raise CaseError(f"{file}: {error}") from error  # @case does not know the file
    except Exception as error:
        raise CaseError(f"{file} cannot be imported: {type(error).__name__}: {first_line(error)}") from error


def _matching(cases: Iterable[Case], patterns: Sequence[str]) -> list[Case]:
    return [case for case in cases if not patterns or any(fnmatch.fnmatch(case.id, f"*{p}*") for p in patterns)]


def _no_match(patterns: Sequence[str]) -> str:
    return f"no case matches {' or '.join(map(repr, patterns))}" if patterns else "there is no case"


def _unread(found: FoundCases) -> str:
    """The end of a message: the files that could not be imported."""
    return "".join(f"; not looked in: {error}" for error in found.unread[:_SHOWN])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _similar(names: Sequence[str], cases: Iterable[Case], file: str = "") -> str:
    """The end of a message: ids that contain a name or are similar to it, else how to list all cases."""
    cases = list(cases)
    ids = list(dict.fromkeys(case.id for case in cases))
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
