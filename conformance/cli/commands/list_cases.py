"""`list`: the cases and their files, the known bugs, or the missed optimisations of a run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.cases.case import Case
from conformance.cases.lookup import (
    FoundCases,
    UnknownCaseError,
    is_test_path,
    project_here,
    selected_cases,
)
from conformance.cases.roots import OPS, is_own_case_file
from conformance.cases.target_selection import select_targets
from conformance.cli.bug_list import list_bugs
from conformance.cli.missed_list import list_missed
from conformance.cli.overlay_options import of_subset
from conformance.devices.targets import Target, targets
from conformance.errors import ConformanceError
from conformance.harness.overlay.report import layer_lines
from conformance.storage.runs import LAST

#: The first entry of `--json`; docs/formats.md describes the rest.
FORMAT = "conformance list 1"

DESCRIPTION = """\
List the cases and their files: those of the project that this folder is in, or
else those of this package. With --device or --target, list the node ids that
pytest takes. Exit status 1: a file could not be imported.

--bugs lists the known bugs of Inductor as Markdown, each with a script that
needs only torch: first those of this project and of --known-failures, then
those of conformance. --bugs --check runs the scripts of the bugs that this
torch has, on a device that is here. Exit status 1: one no longer shows its bug.

--missed lists the optimisations that Inductor misses in the cases of a run,
grouped by its reasons. Neither --missed nor --bugs without --check compiles."""

EXAMPLES = """\
examples:
  python -m conformance list               the cases of this project
  python -m conformance list --package     the cases of this package
  python -m conformance list flip          cases with "flip" in their id
  python -m conformance list 'hflip-*-u8' --target cuda_sm90
  python -m conformance list --bugs --package > docs/known-bugs.md
  python -m conformance list --bugs --check
  pytest conformance/ops --device cpu; python -m conformance list --missed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="*",
        default=[],
        metavar="PATTERN|PATH",
        help="parts of case ids, with * and ?; files and folders; with --bugs: folders of *.toml files",
    )
    parser.add_argument("--device", metavar="LIST", help="print node ids for these devices: cpu,cuda,rocm,xpu or all")
    parser.add_argument("--target", metavar="LIST", help="print node ids for these targets: cpu_avx2,cuda_sm90")
    parser.add_argument("--package", action="store_true", help="list the cases of this package, also in a project")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--bugs", action="store_true", help="list the known bugs instead")
    parser.add_argument("--check", action="store_true", help="with --bugs: run their scripts instead")
    parser.add_argument(
        "--missed",
        nargs="?",
        const=LAST,
        metavar="RUN",
        help="list the missed optimisations of a run instead: its folder, or its name below .conformance/runs; "
        "default: the last run",
    )


def run(arguments: argparse.Namespace) -> int:
    """Raises CaseError, UnknownCaseError, TargetError, SubsetError, KnownFailureError, RunError and ListError."""
    _refuse_mixed(arguments)
    if arguments.bugs:
        return list_bugs(arguments)
    if arguments.missed:
        return list_missed(arguments.missed, as_json=arguments.json)
    return _list_cases(arguments)


class ListError(ConformanceError, ValueError):
    """The options do not fit each other."""


def _refuse_mixed(arguments: argparse.Namespace) -> None:
    """Raises ListError for an option that says nothing of what is listed."""
    if arguments.check and not arguments.bugs:
        raise ListError("--check runs the scripts of known bugs: list --bugs --check")
    for option, given in {"--bugs": arguments.bugs, "--missed": arguments.missed}.items():
        of_cases = {"--device": arguments.device, "--target": arguments.target, "--subset": arguments.subset}
        of_cases |= {"--json": arguments.json, "--missed": arguments.missed} if option == "--bugs" else {}
        of_cases |= {"--package": arguments.package, "cases": arguments.what} if option == "--missed" else {}
        if given and (others := [name for name, value in of_cases.items() if value]):
            raise ListError(f"{option} lists no cases: leave out {others[0]}, or {option}")


def _list_cases(arguments: argparse.Namespace) -> int:
    wanted: list[Target] = []
    if arguments.device or arguments.target:
        wanted = select_targets(targets().values(), arguments.device, arguments.target)
    paths = [Path(word) for word in arguments.what if is_test_path(word)]
    patterns = [word for word in arguments.what if not is_test_path(word)]
    if paths and arguments.package:
        raise UnknownCaseError(f"--package lists the cases of this package: leave out {paths[0]}, or --package")
    found = selected_cases(paths, patterns, package=arguments.package)
    cases = of_subset(found.cases, arguments.subset)
    print("\n".join(layer_lines(arguments.overlay)), end="\n" if arguments.overlay.options() else "", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"format": FORMAT, "cases": [_described(case, wanted) for case in cases]}, indent=1))
    elif wanted:
        print("\n".join(node_id(case, target) for case in cases for target in wanted))
    else:
        width = max(len(case.id) for case in cases)
        print("\n".join(f"{case.id:<{width}}  {short_path(case.file)}" for case in cases))
        if hint := _hint(found, by_path=bool(paths), package=arguments.package):
            print(hint, file=sys.stderr)
    for problem in found.unread:
        print(f"not listed: {problem}", file=sys.stderr)
    return int(bool(found.unread))


def _hint(found: FoundCases, *, by_path: bool, package: bool) -> str:
    """Which cases are listed, and how to list others; "" where that is clear."""
    if by_path or package or not sys.stderr.isatty():
        return ""
    of_package = all(is_own_case_file(case.file) for case in found.cases)
    if not of_package:
        return f"the cases of the project {project_here().root}; --package lists those of conformance"
    own = OPS.is_relative_to(project_here().root)
    return "" if own else f"the cases of conformance: the project {project_here().root} has no such case"


def _described(case: Case, wanted: Sequence[Target]) -> dict[str, object]:
    described: dict[str, object] = {"case": case.id, "file": str(case.file), "function": f"test_{case.name}"}
    if wanted:
        described["nodes"] = {target.name: node_id(case, target) for target in wanted}
    return described


def node_id(case: Case, target: Target) -> str:
    """Returns pytest's node id of the case on the target."""
    return f"{short_path(case.file)}::test_{case.name}[{'-'.join((*case.labels, target.name))}]"


def short_path(file: Path) -> str:
    """Returns the path relative to the current folder if it is below that folder."""
    relative = os.path.relpath(file)
    return str(file) if relative.startswith(os.pardir) else relative
