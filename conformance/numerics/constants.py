"""Comparisons that cannot fail: tensors that are the same constant in every call of a check, or always empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from conformance.numerics.problem import Problem

_VARIES = "varies"


class Constants:
    """Collects, over all calls, what each of eager's tensors holds."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = {}  # title of the tensor → its constants, or _VARIES

    def add(self, title: str, tensor: torch.Tensor) -> None:
        """`tensor`: on the CPU, of any dtype and layout."""
        found = self._found.setdefault(title, set())
        if _VARIES not in found:
            found.add(_constant(tensor))

    def all_declared(self, fill: Mapping[str, str]) -> bool:
        """Whether each tensor that was one constant so far is declared as such. `fill`: as in `problems`."""
        return self._constant().keys() <= fill.keys()

    def problems(self, fill: Mapping[str, str]) -> Iterator[Problem]:
        """A problem for each tensor that nothing can be wrong with. `fill`: see cases/tolerance_policy.py."""
        constant = self._constant()
        for title, found in constant.items():
            if title not in fill:
                what = next(iter(found - {"empty"}), "")
                text = f"every element is {what} in every call" if what else "it is empty in every call"
                yield Problem(
                    title,
                    "nothing compared",
                    f"{title}: {text}, so no error could be found; change the inputs, or declare "
                    f"numerics={{'fill': {{{title!r}: 'the reason'}}}}",
                )
        for title in fill:
            if title not in constant:
                text = f"numerics['fill'] names {title!r}, which is no constant; leave it out"
                yield Problem(title, "nothing compared", text)

    def _constant(self) -> dict[str, set[str]]:
        return {
            title: found for title, found in self._found.items() if len(found - {"empty"}) < 2 and _VARIES not in found
        }


def _constant(tensor: torch.Tensor) -> str:
    """The value of all elements, "empty", or _VARIES."""
    if not tensor.numel():
        return "empty"
    if tensor.layout != torch.strided:
        return _VARIES
    values = tensor.flatten()
    if values.dtype != torch.int64:  # float8 cannot be compared
        values = values.to(torch.complex128 if values.dtype.is_complex else torch.float64)
    first = values[0]
    same = (values == first) | (values.isnan() & first.isnan())
    return f"{tensor.flatten()[0].item()}" if bool(same.all()) else _VARIES
