"""Which items an edit of torch can change: those whose captures execute what it changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from conformance.coverage.changes import Block, Change
from conformance.coverage.coverage_map import CoverageError, CoverageMap, MappedFile
from conformance.coverage.statements import Text, is_only_comment, new_functions, parsed
from conformance.coverage.watched_files import is_watched
from conformance.sources.torch_source import blob_id
from conformance.sources.units import SKELETON, units_of

#: How far from its number a block is looked for in a text that differs, in lines.
_REACH = 2000


@dataclass
class Affected:
    """`items`: those of the map. `everything`: why all cases are selected; "" if they are not. `notes`: sentences."""

    items: int = 0
    everything: str = ""
    notes: list[str] = field(default_factory=list)


def affected_items(
    coverage: CoverageMap, changes: Sequence[Change], content_of: Callable[[str], bytes | None]
) -> Affected:
    """The items that changes affect. `content_of`: the imported torch's file at a path below torch/; None without one.

    Raises CoverageError for a typed place that does not exist.
    """
    result, ignored = Affected(), []
    for change in changes:
        if not change.is_torch or not change.path.endswith((".py", ".jinja")):
            ignored.append(change.path if not change.is_torch else f"torch/{change.path}")
            continue
        found = _File(coverage, change, content_of(change.path)).affected()
        result.items |= found.items
        result.everything = result.everything or found.everything
        result.notes += found.notes
    if ignored:
        more = f" and {len(ignored) - 1:,} more" if len(ignored) > 1 else ""
        result.notes.append(f"{ignored[0]}{more}: no Python file of torch, selects nothing")
    if result.everything:
        result.items = coverage.all_items
    return result


class _File:
    """The changes of one file. `content`: of the imported torch, which may differ from the map's and the diff's."""

    def __init__(self, coverage: CoverageMap, change: Change, content: bytes | None) -> None:
        self._coverage, self._change = coverage, change
        self._name = f"torch/{change.path}"
        self._text = content.decode("utf-8", "replace") if content is not None else None
        self._mapped = coverage.files.get(change.path) or MappedFile("")
        self._is_exact = content is not None and blob_id(content) == self._mapped.blob
        self._is_of_diff = bool(change.blob) and content is not None and blob_id(content).startswith(change.blob)
        self._result = Affected()

    def affected(self) -> Affected:
        typed = bool(self._change.places or self._change.names)
        if self._text is None and typed:
            raise CoverageError(f"{self._name}: this torch has no such file")
        if self._text is None and self._change.path not in self._coverage.files:
            if set(self._change.blob) == {"0"}:  # a new file: what calls it changes too
                return self._result
            return Affected(everything=f"neither the map nor this torch has {self._name}")
        if not is_watched(self._change.path):
            return Affected(everything=f"{self._name} is not in the map, which has torch/_inductor and decompositions")
        if self._mapped.blob and not self._is_exact:
            self._result.notes.append(
                f"{self._name} is not as in the map of {self._coverage.name}: whole functions are looked up by name"
            )
        for name in self._change.names:
            self._select_typed_function(name)
        for line in self._change.places:
            self._select_typed_line(line)
        for block in self._change.blocks:
            if not is_only_comment([*block.removed, *block.added]):
                self._select_block(block)
        return self._result

    def _select_typed_function(self, name: str) -> None:
        functions = units_of(self._text or "").functions
        names = [each for each in functions if each == name or each.endswith(f".{name}")]
        if not names:
            raise CoverageError(f"{self._name} has no function {name}")
        for each in names:
            self._select_function(each)

    def _select_typed_line(self, line: int) -> None:
        text = parsed(self._text or "")
        if not 1 <= line <= len(text.lines):
            raise CoverageError(f"{self._name}:{line}: the file has {len(text.lines)} lines")
        self._select_lines([line], text)

    def _select_block(self, block: Block) -> None:
        text = parsed(self._text) if self._text is not None else None
        first = self._located(block, text) if text is not None else None
        if text is None or first is None:
            self._select_by_heading(block)
            return
        numbers = range(first, first + len(block.removed))
        if _is_paired(block):
            self._select_lines([n for n in numbers if not is_only_comment([text.lines[n - 1]])], text)
            return
        names = {self._function_at(n) for n in numbers if not is_only_comment([text.lines[n - 1]])}
        if block.added and not is_only_comment(block.added):
            names.add(self._function_around(first, block, text))
        for name in names:
            if name != SKELETON:
                self._select_function(name)
        if SKELETON in names and not self._adds_only_functions(block):
            self._select_everything(first)

    def _select_lines(self, numbers: Iterable[int], text: Text) -> None:
        """Selects what executes the statements at these lines; without a statement there, the functions."""
        for number in numbers:
            name = self._function_at(number)
            if name == SKELETON:
                self._select_everything(number)
                continue
            statement = text.statement(number)
            if not self._is_exact or statement is None:
                self._select_function(name)
            else:
                self._select(statement)

    def _select_function(self, name: str) -> None:
        mapped = self._mapped.function(name)
        if mapped is not None:
            self._select(range(mapped.first, mapped.last + 1))

    def _select(self, numbers: range) -> None:
        if self._mapped.once.intersection(numbers):
            place = f"{self._name}:{min(self._mapped.once.intersection(numbers))}"
            self._result.everything = f"{place} runs when torch is imported or compiles for the first time"
        self._result.items |= self._mapped.items(numbers)

    def _select_everything(self, number: int) -> None:
        self._result.everything = f"{self._name}:{number} is code of the module, which runs when it is imported"

    def _select_by_heading(self, block: Block) -> None:
        """For a text that nobody has: git names the function in the hunk's heading, or only its class."""
        parts = block.heading
        names = [each for each in self._mapped.functions if parts and parts in each.name.split(".")]
        for each in names:
            self._select(range(each.first, each.last + 1))
        if not names:
            self._result.items |= self._mapped.items(self._mapped.lines)
            self._result.notes.append(
                f"{self._name}: the changed lines are not found in this torch, so all cases that execute the file "
                "are selected"
            )

    def _function_at(self, number: int) -> str:
        """A decorator belongs to the module, which calls it."""
        text = self._text or ""
        return units_of(text).at(number) if number in parsed(text).functions else SKELETON

    def _function_around(self, first: int, block: Block, text: Text) -> str:
        """The function that added lines belong to, which come before the line `first`, or in place of it."""
        indent = min(_indent(line) for line in block.added if not is_only_comment([line]))
        for number in (first - 1, first):
            name = self._function_at(number) if number <= len(text.lines) else SKELETON
            unit = units_of(self._text or "").functions.get(name)
            if unit is None:
                continue
            head = next(each for each in text.lines[unit.first - 1 :] if not each.lstrip().startswith("@"))
            if (number == first - 1 or unit.first < first) and indent > _indent(head):
                return name
        return SKELETON

    def _adds_only_functions(self, block: Block) -> bool:
        """Whether the block adds functions that nothing calls but what changes too."""
        names = new_functions(block.added)
        known = {name.split(".")[-1] for name in units_of(self._text or "").functions}
        return bool(names) and not names & known and is_only_comment(block.removed)

    def _located(self, block: Block, text: Text) -> int | None:
        """The number of the block's first line in the text. In another text, its old lines are looked for nearby."""
        if self._is_of_diff:
            return block.first
        context = list(block.before[-3:])
        wanted = [*context, *block.removed]
        if not wanted:
            return None
        for offset in _around(_REACH):
            start = block.first - len(context) + offset
            if start >= 1 and list(text.lines[start - 1 : start - 1 + len(wanted)]) == wanted:
                return start + len(context)
        return None


def _around(reach: int) -> Iterator[int]:
    return itertools.chain([0], *((number, -number) for number in range(1, reach)))


def _is_paired(block: Block) -> bool:
    """Whether each removed line has a successor with the same indentation: then only these statements change."""
    pairs = list(itertools.zip_longest(block.removed, block.added))
    return all(old is not None and new is not None and _indent(old) == _indent(new) for old, new in pairs)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
