"""Finds the part of the compiler that makes a program wrong: the backend, the kind of part, the single application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.compiler_parts import PARTS, LeftOut
from conformance.minimisation.trial import BACKENDS, INDUCTOR

#: Backend → what it adds to the one before it.
ADDED = {
    "eager": "Dynamo",
    "aot_eager": "AOTAutograd: functionalisation, or the formula of a gradient",
    "aot_eager_decomp_partition": "the decompositions, or the partition into forward and backward",
    INDUCTOR: "Inductor",
}
#: Option of Inductor, and the value that switches something off → what it switches off.
SWITCHES: Mapping[tuple[str, Any], str] = {
    ("cpp.simdlen", 1): "vectorised C++",
    ("max_fusion_size", 1): "fusion",
    ("pattern_matcher", False): "the pattern matcher",
    ("emulate_precision_casts", True): "results in between that keep more bits than their dtype",
    ("inplace_buffers", False): "results that are written into the buffer of an input",
    ("allow_buffer_reuse", False): "buffers that are used again",
    ("layout_optimization", False): "other layouts for convolutions",
    ("comprehensive_padding", False): "padded strides",
    ("split_reductions", False): "reductions in two stages",
    ("loop_ordering_after_fusion", False): "loops in another order",
}


@dataclass(frozen=True)
class Tried:
    """What a trial says: `fails`: True, False, or None if it says neither. `applied`: see Outcome."""

    fails: bool | None
    applied: Mapping[str, Sequence[str]] = field(default_factory=dict)


#: Makes a trial with a backend, without some applications, with other options of Inductor.
Try = Callable[[str, LeftOut | None, Mapping[str, Any]], Tried]


@dataclass(frozen=True)
class FoundPart:
    """`backend`: the first one that fails; "" if none does. `part`: a key of PARTS, or "". `name`: of the application
    that makes it wrong, `number`: its number from 1, `of`: how many there are. `alone`: whether it is right when only
    this application is left out. `switches`: what makes it right when it is switched off: (what, option).
    """

    backend: str
    part: str = ""
    name: str = ""
    number: int = 0
    of: int = 0
    alone: bool = False
    switches: tuple[tuple[str, str], ...] = ()

    def lines(self) -> list[str]:
        """For people."""
        if not self.backend:
            return ["wrong from: no backend alone is wrong"]
        text = f"wrong from: backend {self.backend}"
        if self.part:
            place = f" (application {self.number} of {self.of})" if self.of > 1 else ""
            alone = "" if self.alone else ", together with applications before it"
            text += f", {PARTS[self.part]} {self.name}{place}{alone}"
        else:
            text += f": {ADDED[self.backend]}"
        return [text, *(f"  right without {what} ({option})" for what, option in self.switches)]


def find_part(try_: Try, is_option: Callable[[str], bool]) -> FoundPart:
    """`is_option`: whether the installed torch has an option of Inductor."""
    backend = next((each for each in BACKENDS if try_(each, None, {}).fails), "")
    if backend in ("", "eager", "aot_eager"):
        return FoundPart(backend)
    parts = ("decomposition",) if backend != INDUCTOR else tuple(PARTS)
    found = next(filter(None, (_application(try_, backend, part) for part in parts)), FoundPart(backend))
    if backend != INDUCTOR:
        return found
    switches = tuple(
        (what, f"{option}={value}")
        for (option, value), what in SWITCHES.items()
        if is_option(option) and try_(backend, None, {option: value}).fails is False
    )
    return FoundPart(found.backend, found.part, found.name, found.number, found.of, found.alone, switches)


def _application(try_: Try, backend: str, part: str) -> FoundPart | None:
    """The first application of a part without which it is right, if it is right without all of them."""
    count = len(try_(backend, None, {}).applied.get(part, ()))
    if not count or try_(backend, LeftOut(part), {}).fails is not False:
        return None
    low, high = 0, count  # right with the first `low`, wrong with the first `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if try_(backend, LeftOut(part, middle), {}).fails else (middle, high)
    alone = try_(backend, LeftOut(part, low, low + 1), {})
    names = try_(backend, LeftOut(part, high), {}).applied.get(part, ())
    name = names[low] if low < len(names) else ""
    return FoundPart(backend, part, name, low + 1, count, alone=alone.fails is False)
