"""Sizes that no machine holds: the form that is compared in their place, and from where on there are other kernels."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.compiler.case_request import CaseRequest
from conformance.errors import first_line
from conformance.generated.capture_texts import code_text

if TYPE_CHECKING:
    from conformance.capture.model import Capture
    from conformance.capture.result import CaptureResult
    from conformance.devices.targets import Target

#: Larger inputs, in elements, are not looked at.
MOST = 2**33


def kernels_without_sizes(capture: Capture, target: Target) -> tuple[str, ...]:
    """What a capture's kernels are, but for sizes: operators, kind, loops, and the type of indices on a GPU."""
    from conformance import facts

    lines = facts.extract(capture).lines().get("kernels", "").splitlines()
    wide = ["64-bit indices"] if target.device != "cpu" and "tl.int64" in code_text(capture, target) else []
    return (*(re.sub(r"\d+(?=[x\])\s,]|$)", "N", line.strip()) for line in lines[len(lines) > 1 :]), *wide)


def compared_form(case: Case, generated: Capture, runs: Capture, target: Target) -> str:
    """A note that names the form whose numerics are compared. Raises NumericsError where its kernels are others."""
    from conformance.numerics.comparison import NumericsError

    own, other = (kernels_without_sizes(capture, target) for capture in (generated, runs))
    options = [f"{name}={value}" for name, value in case.compared_as.get("config", {}).items()]
    shapes = [f"{path}={'x'.join(map(str, shape))}" for path, shape in case.compared_as.items() if path != "config"]
    form = f"compared as {', '.join([*shapes, *options])}"
    narrow = own[-1:] == ("64-bit indices",) and own[:-1] == other
    if own != other and not narrow:
        raise NumericsError(
            f"{case.id}: {form}, which has other kernels: {_difference(own, other)}; choose sizes or an option of "
            "Inductor that give the same ones"
        )
    return f"{form}: the same kernels{', with 32-bit indices' if narrow else ''}"


def size_choices(
    capture: Callable[[CaseRequest], contextlib.AbstractContextManager[CaptureResult]], case: Case, target: Target
) -> Iterator[str]:
    """Lines that say from which size on Inductor chooses other kernels, for each size of the inputs alone."""
    shapes = {path: tuple(case.form_that_runs.inputs[path].values(choice).get("shape") or ())
              for path, choice in case.choices.items() if path in case.inputs}  # fmt: skip

    def kernels(size: int, becomes: int) -> tuple[str, ...]:
        choices = {path: {**choice, "shape": tuple(becomes if each == size else each for each in shapes[path])}
                   if path in shapes else choice for path, choice in case.choices.items()}  # fmt: skip
        changed = dataclasses.replace(case, choices=choices, compared_as={"config": {}})
        with capture(CaseRequest(changed, target, texts=False)) as result:
            return kernels_without_sizes(result.capture, target)

    for size in sorted({each for shape in shapes.values() for each in shape if each > 1}):
        most = max(math.prod(shape) / size ** shape.count(size) for shape in shapes.values() if size in shape)
        power = max(shape.count(size) for shape in shapes.values())
        low, before, found = size, kernels(size, size), 0
        try:
            while most * (2 * low) ** power <= MOST:
                high, after = 2 * low, kernels(size, 2 * low)
                if after != before:
                    start = _first_other(functools.partial(kernels, size), low, high, before)
                    elements = int(most * start**power)
                    yield (
                        f"from {start:,} in place of {size:,} on ({elements:,} elements): {_difference(before, after)}"
                    )
                    found += 1
                low, before = high, after
        except Exception as error:  # noqa: BLE001 - a function may be made for this size
            yield f"{size:,}: no other size: {type(error).__name__}: {first_line(error)}"
            continue
        if not found:
            yield f"{size:,}: the same kernels up to {low:,}"


def _first_other(kernels: Callable[[int], tuple[str, ...]], low: int, high: int, before: tuple[str, ...]) -> int:
    """The first size above `low` whose kernels are not those of `before`, which `high` has not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kernels(middle) == before else (low, middle)
    return high


def _difference(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    return f"{'; '.join(before) or 'no kernel'} → {'; '.join(after) or 'no kernel'}"
