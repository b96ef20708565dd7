"""The functions of PyTorch whose change makes a cause: what `review --blame` found for a run, kept in its folder."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass

from conformance import atomic_files
from conformance.review.causes import Cause
from conformance.review.review import Review
from conformance.storage.runs import Run

#: In the folder of a run. docs/formats.md describes it.
FILE = "blamed.json"


@dataclass(frozen=True)
class CauseFunctions:
    """`functions`: such as `torch/_inductor/codegen/triton.py: TritonKernel.load`, of which each is needed.

    `stopped`: why none was found; "" if some were. `item`: the one that was compiled. `old`, `new`: the two torches.
    `compared_with`: as in ChangedItem.
    `is_cut_off`: the captures were used up before it was known that these are the fewest.
    """

    functions: tuple[str, ...]
    stopped: str
    item: str
    old: str
    new: str
    compared_with: str = ""
    is_cut_off: bool = False

    def lines(self) -> list[str]:
        """For people: "comes from …", a line for each function; or why that is not known."""
        if not self.functions:
            return [f"comes from: not found with {self.item}: {self.stopped}"]
        lines = [f"{'and' if number else 'comes from'} {each}" for number, each in enumerate(self.functions)]
        return [*lines, "perhaps fewer of them make it: the captures were used up"] if self.is_cut_off else lines


def compared_with(review: Review, cause: Cause) -> str:
    """What the example of a cause was compared with."""
    return review.item(cause.example.item.name).compared_with


def kept_functions(run: Run) -> dict[tuple[str, str], CauseFunctions]:
    """What the cause was compared with, and its id → what was found. A file that cannot be read counts as empty."""
    found = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        for entry in json.loads((run.folder / FILE).read_text(encoding="utf-8"))["causes"]:
            data = dict(entry)
            cause = data.pop("id")
            each = CauseFunctions(**{**data, "functions": tuple(data["functions"])})
            found[each.compared_with, cause] = each
    return found


def keep_functions(run: Run, cause: Cause, found: CauseFunctions) -> None:
    """Adds what was found for a cause. A run in a folder that cannot be written to keeps nothing."""
    kept = kept_functions(run) | {(found.compared_with, cause.id): found}
    data = {"causes": [{"id": name, **asdict(each)} for (_, name), each in kept.items()]}
    with contextlib.suppress(OSError):
        atomic_files.write_atomically(run.folder / FILE, json.dumps(data, indent=1), survives_power_loss=False)
