"""The calls after the first one that the code of a case must serve: with other values, and with other sizes.

Sizes change only with dynamic shapes. The numerics check makes these calls and others; a capture makes them where the
case requires the fact `compiles`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conformance.capture import call_modes
from conformance.capture.program import OWN_CODE_CALLS
from conformance.cases.case import Case, resized_arguments
from conformance.containers import copy_to

if TYPE_CHECKING:
    from conformance.cases.tolerance_policy import Policy

#: The call with other values than those of the first one.
SECOND = "second"
#: Calls under dynamic shapes: the name of the call, and the function that changes each size above 1.
OTHER_SIZES: dict[str, Callable[[int], int]] = {
    "sizes + 1": lambda size: size + 1,
    "sizes × 2 - 1": lambda size: size * 2 - 1,
}
#: The same, of calls in which Dynamo makes code of its own for the size: only what they compile is counted.
OWN_CODE_SIZES: dict[str, Callable[[int], int]] = dict(zip(OWN_CODE_CALLS, (lambda _: 1, lambda _: 0), strict=True))
#: All sizes with which compiles are counted.
_COUNTED_SIZES = OTHER_SIZES | {"sizes 2": lambda _: 2} | OWN_CODE_SIZES
#: Of the sizes of a case with modules, at most so many different ones stay in the calls with other sizes. So do they
#: where compiles are counted: not all dimensions can be 1.
MOST_KEPT = 3
#: The fact that counts what these calls compile.
_FACT = "compiles"


def later_calls(case: Case, policy: Policy) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and arguments of each call after the first one; none where eager raises. Those with OWN_CODE_SIZES last."""
    if policy.raises:
        return
    yield SECOND, case.build(1)
    yield from calls_with_other_sizes(case, policy, _COUNTED_SIZES, may_keep=True)


def calls_with_other_sizes(
    case: Case, policy: Policy, sizes: Mapping[str, Callable[[int], int]] = OTHER_SIZES, *, may_keep: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and arguments of each call with other sizes. Builds them when they are reached.

    `may_keep`: some sizes stay where eager needs that, also without modules.
    """
    if case.dynamic and "sizes" not in policy.without:
        for name, change in sizes.items():
            if (arguments := _resized_arguments(case, change, may_keep=may_keep)) is not None:
                yield name, arguments


def are_counted(case: Case) -> bool:
    """Whether the case requires, on any target, how often its calls compile: those after the first one too."""
    if case.compared_as or not case.inputs:  # its tensors have no memory; a contract's tensors are what they are
        return False
    names = [fact for declared in (*case.require.values(), *case.missed.values()) for fact in declared]
    return any(name.partition(".")[0] == _FACT and name != f"{_FACT}.first" for name in names)


def _resized_arguments(case: Case, change: Callable[[int], int], *, may_keep: bool = False) -> dict[str, Any] | None:
    """Arguments with other sizes. A module is made for some sizes, so these stay: as few as eager on the CPU asks for.

    None if no input has a size to change. Where eager takes no other size, all are changed. `may_keep`: also without a
    module.
    """
    everything = resized_arguments(case, change)
    if everything is None or (len(case.recipes) == len(case.inputs) and not may_keep):
        return everything
    sizes = sorted({size for path in case.inputs for size in _sizes(case, path) if size > 1})
    for count in range(min(len(sizes), MOST_KEPT + 1)):
        for kept in itertools.combinations(sizes, count):
            arguments = resized_arguments(case, change, kept)
            with contextlib.suppress(Exception), call_modes.enter_mode(case.mode, "cpu"):
                case.fn(**copy_to(arguments, "cpu"))
                return arguments
    return everything


def _sizes(case: Case, path: str) -> Sequence[int]:
    choice = case.inputs[path].values(case.choices[path])
    return choice["shape"] if "shape" in choice else (choice.get("size", 0),)
