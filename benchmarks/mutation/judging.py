"""Judges one mutant in a process of its own: which items change, and which checks find it."""

from __future__ import annotations

import difflib
import math
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mutation.making import Mutant, Tree
from mutation.planting import Functions, NotPlantedError
from mutation.reached import Reached
from mutation.suite import Suite, TooSlowError

#: How the process of a mutant may end.
OUTCOMES = {
    "not planted": "no valid function, or none that is called",
    "unchanged": "no tried case has other code",
    "does not compile": "compiling a case raises in Inductor: there is no code to judge",
    "found": "",
    "survived": "",
}
#: An item that takes longer than this to generate is left out where there are enough others.
SLOW_SECONDS = 4.0
ITEM_SECONDS = 60
_DIFF_LINES = 60
#: The line of a text that says that compiling raises what eager raises.
_NO_CODE = re.compile(r"^code +none: compiling raises (.*)", re.MULTILINE)


@dataclass(frozen=True)
class Limits:
    """How many items are tried for a mutant.

    Of the items that execute the changed line, `generated` are generated; once the code of one has changed,
    `generated_if_changed`. Of those whose code changed, `run` are run. No further item is tried after `cpu_seconds`.
    """

    generated: int = 8
    generated_if_changed: int = 40
    run: int = 16
    cpu_seconds: float = 45.0


#: Every item that executes the changed line, for as long as a process of the pool may take.
EVERY_ITEM = Limits(sys.maxsize, sys.maxsize, sys.maxsize, math.inf)


@dataclass
class Judgement:
    """What came of a mutant.

    `how`: "values" (numerics found wrong results), "requirements", "error" (the generated code does not build, or
    raises, or ends the process), "timeout"; several where several checks failed. `item`: that found it; of a survivor,
    the first that changed. `calls`, `rules`: of the numerics problems. `generated`, `changed`, `ran`: numbers of items.
    `quiet`: the items that changed and passed. `diff`: of the text of `item`.
    """

    outcome: str = ""
    how: list[str] = field(default_factory=list)
    item: str = ""
    message: str = ""
    calls: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    generated: int = 0
    changed: int = 0
    ran: int = 0
    quiet: list[str] = field(default_factory=list)
    diff: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def candidates(
    mutant: Mutant, rows: Sequence[int], reached: Reached, left_out: Collection[str], limits: Limits
) -> list[int]:
    """The items that execute the mutant's line, in the order in which they are tried.

    One item of each function of the suite first, then a second one, and so on; the order depends on the mutant alone.
    """
    rows = [row for row in rows if reached.texts[row] and item_name(reached.items[row]) not in left_out]
    fast = [row for row in rows if reached.seconds[row] <= SLOW_SECONDS]
    rows = fast if len(fast) >= limits.generated_if_changed else rows
    shuffled = random.Random(mutant.id)
    groups: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        groups[reached.items[row][0].partition("-")[0]].append(row)
    order = []
    for name in sorted(groups):
        shuffled.shuffle(groups[name])
        order += [(number, shuffled.random(), row) for number, row in enumerate(groups[name])]
    return [row for _, _, row in sorted(order)]


def item_name(item: tuple[str, str]) -> str:
    return f"{item[0]} on {item[1]}"


def judge(
    suite: Suite,
    functions: Functions,
    tree: Tree,
    mutant: Mutant,
    reached: Reached,
    order: Sequence[int],
    limits: Limits,
    note: Callable[[Judgement], None],
) -> Judgement:
    """Plants the mutant into this process and tries items. `note` is told what is known so far, before each risk."""
    start = time.process_time()
    result = Judgement()
    try:
        functions.plant(tree, mutant)
    except NotPlantedError as error:
        return Judgement("not planted", message=str(error))
    for row in order:
        spent = time.process_time() - start
        most = limits.generated_if_changed if result.changed else limits.generated
        if result.generated >= most or result.ran >= limits.run or spent > limits.cpu_seconds:
            break
        _try(suite, reached, row, result, note)
        if result.outcome:
            break
    result.outcome = result.outcome or ("survived" if result.ran else "unchanged")
    result.seconds = round(time.process_time() - start, 1)
    return result


def _try(suite: Suite, reached: Reached, row: int, result: Judgement, note: Callable[[Judgement], None]) -> None:
    """Generates an item; if its text changed, runs its checks."""
    item, old = reached.items[row], reached.texts[row]
    result.generated += 1
    result.message = f"generating {item_name(item)}"
    note(result)
    try:
        text = suite.text(item)
    except Exception as error:  # noqa: BLE001 -- a mutant may raise anything
        result.outcome, result.item = "does not compile", item_name(item)
        result.message = f"{type(error).__name__}: {error}"[:1000]
        return
    result.message = ""
    if text == old:
        return
    if (error := _NO_CODE.search(text)) and not _NO_CODE.search(old):
        result.outcome, result.item, result.message = "does not compile", item_name(item), error[1][:1000]
        return
    result.changed += 1
    diff = "\n".join(list(difflib.unified_diff(old.split("\n"), text.split("\n"), n=1, lineterm=""))[:_DIFF_LINES])
    result.item, result.diff = result.item or item_name(item), result.diff or diff
    result.message = f"running {item_name(item)}"
    note(result)
    try:
        verdict = suite.judge(item, ITEM_SECONDS)
    except TooSlowError:
        result.message = f"{item_name(item)} took more than {ITEM_SECONDS} s"
        return
    result.message = ""
    result.ran += not verdict.skipped
    if not verdict.found:
        result.quiet.append(item_name(item))
        return
    result.outcome, result.item, result.diff = "found", item_name(item), diff
    checks = {"values": verdict.numerics, "requirements": verdict.requirements, "error": verdict.crash}
    result.how = [name for name, text in checks.items() if text]
    result.message = verdict.numerics or verdict.requirements or verdict.crash
    result.calls, result.rules = verdict.calls, verdict.rules
