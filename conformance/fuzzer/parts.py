"""The declared cases that programs are made of."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from conformance.cases.case import Case
from conformance.cases.lookup import selected_cases
from conformance.containers import leaves_of

#: Elements of all tensors of a part: larger ones make a search slow, and find no more.
LARGEST = 60_000
#: Keys of numerics that say which comparison is stricter or left out, and not that another one is needed.
_HARMLESS = {"without", "exact", "fill", "branch", "for"}


def selected_by(words: Sequence[str]) -> list[Case]:
    """The cases of files, folders and patterns of ids; without words, those of this package.

    Raises what cases.lookup.selected_cases does.
    """
    paths = [Path(word) for word in words if Path(word).exists()]
    patterns = [word for word in words if not Path(word).exists()]
    return list(selected_cases(paths, patterns, package=not words).cases)


class Parts:
    """Draws cases: first an operator, then one of its functions. So an operator with many cases comes no more often.

    `ids`: of the cases that may be drawn. `leave_out`: says why a case is no part of a program; "" if it may be one.
    """

    def __init__(self, cases: Iterable[Case], leave_out: Callable[[Case], str]) -> None:
        self._by_function: dict[str, dict[str, list[Case]]] = defaultdict(lambda: defaultdict(list))
        self.left_out: dict[str, int] = defaultdict(int)
        self.ids: list[str] = []
        for case in sorted(cases, key=lambda each: each.id):
            if reason := unsuitable(case) or leave_out(case):
                self.left_out[reason] += 1
                continue
            self._by_function[case.operator][case.name].append(case)
            self.ids.append(case.id)
        self._small: dict[str, bool] = {}

    def draw(self, chance: random.Random) -> Case | None:
        """A case; None if the one that was drawn is too large, or cannot be built here."""
        functions = self._by_function[chance.choice(sorted(self._by_function))]
        case = chance.choice(functions[chance.choice(sorted(functions))])
        if case.id not in self._small:
            self._small[case.id] = _is_small(case)
        return case if self._small[case.id] else None


def unsuitable(case: Case) -> str:
    """Why a case is no part of a program: what it declares would have to hold for the whole program."""
    reasons = {
        "with numerics of their own": bool(set(case.numerics) - _HARMLESS),
        "compiled or called in a way of their own": bool(case.config) or case.mode != "plain" or case.dynamic,
        "for some targets only": bool(case.only) or bool(case.needs),
        "only generated": bool(case.compared_as) or case.prepare is not None,
        "without numerics": bool(case.checks) and "numerics" not in case.checks,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_small(case: Case) -> bool:
    try:
        elements = sum(getattr(leaf, "numel", int)() for _, leaf in leaves_of(case.build()))
    except Exception:  # noqa: BLE001 - a case that cannot be built here is no part
        return False
    return elements <= LARGEST


def is_place(value: Any) -> bool:
    """Whether a value of another part may stand there: floating tensors, because integers are mostly indices."""
    import torch

    return (
        isinstance(value, torch.Tensor)
        and value.dtype.is_floating_point
        and value.itemsize >= 2
        and value.numel() > 0
        and value.layout == torch.strided
        and bool(value.detach().isfinite().all())
    )
