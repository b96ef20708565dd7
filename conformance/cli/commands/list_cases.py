"""`list`: which cases there are."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from conformance.cases.case import Case
from conformance.cases.lookup import OPS, cases_below, is_test_path, matching_cases
from conformance.devices.targets import Target, select_targets, targets


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="*", metavar="PATTERN|PATH", help="parts of ids, with * and ?; files and folders")
    parser.add_argument("--device", metavar="LIST", help="node ids for pytest, on these devices")
    parser.add_argument("--target", metavar="LIST", help="node ids for pytest, on these targets")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Raises CaseError, UnknownCaseError and TargetError."""
    wanted: list[Target] = []
    if arguments.device or arguments.target:
        wanted = select_targets(targets().values(), arguments.device, arguments.target)
    paths = [Path(word) for word in arguments.what if is_test_path(word)]
    patterns = [word for word in arguments.what if not is_test_path(word)]
    cases = matching_cases(cases_below(paths or [OPS]), patterns)
    if arguments.json:
        print(json.dumps([_described(case, wanted) for case in cases], indent=1))
    elif wanted:
        print("\n".join(node(case, target) for case in cases for target in wanted))
    else:
        width = max(len(case.id) for case in cases)
        print("\n".join(f"{case.id:<{width}}  {shown(case.file)}" for case in cases))
    return 0


def _described(case: Case, wanted: Sequence[Target]) -> dict[str, object]:
    described: dict[str, object] = {"case": case.id, "file": str(case.file), "function": f"test_{case.name}"}
    if wanted:
        described["nodes"] = {target.name: node(case, target) for target in wanted}
    return described


def node(case: Case, target: Target) -> str:
    """What pytest calls the case on the target."""
    return f"{shown(case.file)}::test_{case.name}[{'-'.join((*case.labels, target.name))}]"


def shown(file: Path) -> str:
    """Relative to the current folder where it is below that."""
    relative = os.path.relpath(file)
    return str(file) if relative.startswith(os.pardir) else relative
