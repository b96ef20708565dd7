"""What a coverage map answers: what no case reaches, which items execute a place, and which cases add nothing."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import CodeType
from typing import Any

from conformance.coverage.coverage_map import CoverageError, CoverageMap, MappedFile, bits
from conformance.coverage.watched_files import is_watched
from conformance.sources.conditions import branch, branches_of, conditions
from conformance.sources.executed_lines import FUNCTION
from conformance.sources.torch_source import blob_id
from conformance.sources.units import units_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Parts of torch that no case of this suite can reach, with reasons.
UNREACHABLE = Path(__file__).with_name("unreachable.toml")


@dataclass
class FunctionReport:
    """`lines`: executable ones. `missed`: those that no case executes. `reason`: why not, where that is explained.

    `branches`: those of conditions that some case executes. `missed_branches`: those of them that no case takes.
    `explained`: reason → how many lines of parts that are explained. `lines` and `missed` are without them.
    """

    name: str
    lines: int
    missed: list[int]
    reason: str = ""
    branches: int = 0
    missed_branches: list[int] = field(default_factory=list)
    explained: dict[str, int] = field(default_factory=dict)


@dataclass
class FileReport:
    """`path`: below torch/. `problem`: why the file is not judged, or ""."""

    path: str
    functions: list[FunctionReport] = field(default_factory=list)
    problem: str = ""

    @property
    def lines(self) -> int:
        """Executable lines of functions that are not explained."""
        return sum(each.lines for each in self.functions if not each.reason)

    @property
    def reached(self) -> int:
        return sum(each.lines - len(each.missed) for each in self.functions if not each.reason)

    @property
    def branches(self) -> int:
        return sum(each.branches for each in self.functions if not each.reason)

    @property
    def taken(self) -> int:
        return sum(each.branches - len(each.missed_branches) for each in self.functions if not each.reason)

    @property
    def explained(self) -> int:
        return sum(sum(reasons.values()) for reasons in map(explained_lines, self.functions))


def explained_lines(function: FunctionReport) -> dict[str, int]:
    """Reason → how many lines of the function it explains."""
    return {function.reason: function.lines} if function.reason else function.explained


def unreachable_parts(file: Path = UNREACHABLE) -> list[dict[str, Any]]:
    """The entries: `files` (patterns), `functions` (patterns; default: all) and `reason`.

    `below` and `after`: texts of the first lines of statements. Then the entry is about the bodies of these
    statements, or about what follows them in their blocks.
    """
    return list(tomllib.loads(file.read_text(encoding="utf-8"))["part"])


def report(
    coverage: CoverageMap, folder: Path, parts: Sequence[dict[str, Any]], words: Sequence[str] = ()
) -> list[FileReport]:
    """A report for each watched file with one of the words in its path. `folder`: of the torch that the map is for."""
    paths = (path.relative_to(folder).as_posix() for path in sorted(folder.glob("_*/**/*.py")))
    alone = (path.name for path in folder.glob("_*.py"))
    named = (path for path in (*paths, *alone) if not words or any(word in path for word in words))
    watched = [path for path in named if is_watched(path)]
    return [_file_report(coverage, path, (folder / path).read_bytes(), parts) for path in watched]


def _file_report(coverage: CoverageMap, path: str, content: bytes, parts: Sequence[dict[str, Any]]) -> FileReport:
    mapped = coverage.files.get(path, MappedFile(""))
    result = FileReport(path)
    if mapped.blob and mapped.blob != blob_id(content):
        result.problem = f"it is not as in the map, which is for {coverage.name}"
        return result
    text = content.decode()
    units, by_name = units_of(text), defaultdict[str, list[int]](list)
    for number in sorted(_executable_lines(compile(text, path, "exec", dont_inherit=True))):
        by_name[units.at(number)].append(number)
    branches = defaultdict[str, list[int]](list)
    if mapped.branches:  # a map that was made before branches were recorded has none
        for each in sorted(branches_of(conditions(text), mapped.lines.keys() | mapped.once)):
            branches[units.at(each // 2)].append(each)
    for name, numbers in by_name.items():
        missed = [each for each in numbers if each not in mapped.lines and each not in mapped.once]
        ways = branches[name]
        untaken = [each for each in ways if each not in mapped.branches and each not in mapped.branches_once]
        function = FunctionReport(name, len(numbers), missed, "", len(ways), untaken)
        for part in parts if missed else ():
            if _matches(part, path, name):
                _explain(function, part, text)
        result.functions.append(function)
    return result


def _explain(function: FunctionReport, part: dict[str, Any], text: str) -> None:
    if not part.keys() & {"below", "after"}:
        function.reason = function.reason or part["reason"]
        return
    lines, branches = unreachable_lines(part, text, function.name)
    unexplained = [each for each in function.missed if each not in lines]
    if explained := len(function.missed) - len(unexplained):  # a line counts once for each code that holds it
        function.explained[part["reason"]] = function.explained.get(part["reason"], 0) + explained
        function.lines -= explained
        function.missed = unexplained
    left = [each for each in function.missed_branches if each not in branches]
    function.branches -= len(function.missed_branches) - len(left)
    function.missed_branches = left


def unreachable_lines(part: dict[str, Any], text: str, name: str) -> tuple[set[int], set[int]]:
    """The lines in a function that an entry with `below` or `after` names, and the branches that lead to them."""
    units, source = units_of(text), text.splitlines()
    lines, branches = set[int](), set[int]()
    blocks = (value for node in ast.walk(ast.parse(text)) for _, value in ast.iter_fields(node))
    for block in (each for each in blocks if isinstance(each, list)):
        for place, node in enumerate(block):
            if not isinstance(node, (ast.stmt, ast.ExceptHandler)) or units.at(node.lineno) != name:
                continue
            first = source[node.lineno - 1].strip()
            for key, explained in (("below", getattr(node, "body", [])), ("after", block[place + 1 :])):
                if explained and first in part.get(key, ()):
                    last = explained[-1]
                    lines.update(range(explained[0].lineno, (last.end_lineno or last.lineno) + 1))
                    branches.add(branch(node.lineno, holds=key == "below"))
    return lines, branches


def _matches(part: dict[str, Any], path: str, name: str) -> bool:
    is_file = any(fnmatchcase(path, pattern) for pattern in part["files"])
    return is_file and any(fnmatchcase(name, pattern) for pattern in part.get("functions", ["*"]))


def _executable_lines(code: CodeType) -> Iterator[int]:
    """The lines of functions that Python can execute, as it reports them."""
    if code.co_flags & FUNCTION:
        yield from {number for _, _, number in code.co_lines() if number and number != code.co_firstlineno}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _executable_lines(constant)


_PLACE = re.compile(r"(?:.*/)?torch/(?P<path>[^:]+\.py)(?::(?P<where>.+))?")


def items_at(coverage: CoverageMap, place: str, content_of: Callable[[str], bytes | None]) -> int:
    """The items that execute FILE, FILE:LINE, FILE:FIRST-LAST or FILE:FUNCTION. Raises CoverageError.

    Lines are those of the map's torch.
    """
    match = _PLACE.fullmatch(place)
    if match is None:
        raise CoverageError(f"{place!r} names no place: write torch/_inductor/lowering.py:1234 or …:FUNCTION")
    path, where = match["path"], match["where"]
    mapped = coverage.files.get(path)
    if mapped is None:
        if not is_watched(path) or content_of(path) is None:
            raise CoverageError(f"torch/{path} is not in the map of {coverage.name}")
        return 0
    if not where:
        return mapped.items(mapped.lines)
    if where[0].isdigit():
        first, _, last = where.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            raise CoverageError(f"{place!r}: write a line, such as 1234, or two: 1234-1240")
        numbers = range(int(first), int(last or first) + 1)
        return coverage.all_items if mapped.once.intersection(numbers) else mapped.items(numbers)
    found = [each for each in mapped.functions if each.name == where or each.name.endswith(f".{where}")]
    if not found:
        raise CoverageError(f"torch/{path} has no function {where} in {coverage.name}")
    return mapped.items(number for each in found for number in range(each.first, each.last + 1))


def redundant_cases(coverage: CoverageMap) -> list[str]:
    """Cases whose lines others execute too, as many as can be left out at once: a greedy set cover.

    A case stays if one of its lines, on one of its targets, is executed by no case that stays on that target.
    """
    by_case: dict[str, int] = defaultdict(int)
    for number, (case, _) in enumerate(coverage.items):
        by_case[case] |= 1 << number
    of_target = {
        target: sum(1 << number for number, item in enumerate(coverage.items) if item[1] == target)
        for target in coverage.targets
    }
    sets = {items for file in coverage.files.values() for items in file.lines.values()}
    needs = {each & mask for each in sets for mask in of_target.values() if each & mask}
    weight: dict[str, set[int]] = {case: set() for case in by_case}  # the needs that a case meets
    for need in needs:
        for number in bits(need):
            weight[coverage.items[number][0]].add(need)
    kept, left = set(), set(needs)
    while left:
        best = max(weight, key=lambda case: len(weight[case] & left))  # the first one of several
        kept.add(best)
        left -= weight.pop(best)
    return [case for case in by_case if case not in kept]
