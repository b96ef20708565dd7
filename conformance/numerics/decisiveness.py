"""Comparisons that decide nothing: no error in a tensor could be found.

The tensor is the same constant in every call of a check, or always empty. Or a plain mistake would pass in every
ordinary call: twice the values, two elements exchanged, an input returned unchanged. Then the tolerance is too wide,
because eager itself is far from float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch

from conformance.numerics.problem import Problem

_VARIES = "varies"
#: Where float64, or the range of its values, is so much smaller than eager, the truth is 0, or one constant: eager's
#: values are roundings of that, and a mistake in them is none.
_ZERO = 2.0**-20

#: Whether a tensor in the place of compiled's would pass.
Passes = Callable[[torch.Tensor], bool]


class Decisiveness:
    """Collects what each of eager's tensors holds in all calls, and which mistakes would pass in all ordinary ones."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = {}  # title of the tensor → its constants, or _VARIES
        #: Whether eager returned, changed or derived anything in some call.
        self.compares = False
        #: Whether some call of eager gave an input a gradient.
        self.derives = False
        self._passing: dict[str, set[str]] = {}  # title of the tensor → the mistakes that passed in each call so far

    def add(self, title: str, tensor: torch.Tensor) -> None:
        """`tensor`: on the CPU, of any dtype and layout."""
        found = self._found.setdefault(title, set())
        if _VARIES not in found:
            found.add(_constant(tensor))

    def add_mistakes(
        self,
        title: str,
        eager: torch.Tensor,
        reference: torch.Tensor | None,
        inputs: Mapping[str, torch.Tensor],
        tolerance: Callable[[float], float],
        passes: Passes,
    ) -> None:
        """Notes which mistakes pass in an ordinary call. All tensors are on the CPU.

        `reference`: eager's result in float64; None without one. `tolerance`: (the largest error of eager) → how far a
        value of the tensor may be from the reference at most.
        """
        known = self._passing.get(title)
        if known is not None and not known:
            return
        now = {name for name, mistake in _mistakes(eager, reference, inputs, tolerance) if passes(mistake)}
        self._passing[title] = now if known is None else known & now

    def all_declared(self, fill: Mapping[str, str]) -> bool:
        """Whether each tensor that was one constant so far is declared as such. `fill`: as in `problems`."""
        return self._constant().keys() <= fill.keys()

    def problems(self, fill: Mapping[str, str], *, asks_gradient: bool = False) -> Iterator[Problem]:
        """A problem for each tensor that nothing can be wrong with.

        `fill`: see cases/tolerance_policy.py. `asks_gradient`: the case is one of a backward.
        """
        if asks_gradient and not self.derives:
            text = "no result has a gradient, so no backward is compared: leave `grad` out, or return what has one"
            yield Problem("", "nothing compared", text)
        if not self.compares:
            text = "the function returns nothing and changes no input, so nothing is compared: return the result"
            yield Problem("", "nothing compared", text)
        undecided = {title: _said(found) for title, found in self._constant().items()}
        for title, passing in self._passing.items():
            if passing:
                said = f"this comparison decides nothing: it would pass with {' and with '.join(sorted(passing))}"
                undecided.setdefault(title, said)
        for title, said in undecided.items():
            if title not in fill:
                yield Problem(
                    title,
                    "nothing compared",
                    f"{title}: {said}, so no error could be found; change the inputs, or declare "
                    f"numerics={{'fill': {{{title!r}: 'the reason'}}}}",
                )
        for title in fill:
            if title not in undecided:
                text = f"numerics['fill'] names {title!r}, in which an error can be found; leave it out"
                yield Problem(title, "nothing compared", text)

    def _constant(self) -> dict[str, set[str]]:
        return {
            title: found for title, found in self._found.items() if len(found - {"empty"}) < 2 and _VARIES not in found
        }


def _said(found: set[str]) -> str:
    what = next(iter(found - {"empty"}), "")
    return f"every element is {what} in every call" if what else "it is empty in every call"


def _mistakes(
    eager: torch.Tensor,
    reference: torch.Tensor | None,
    inputs: Mapping[str, torch.Tensor],
    tolerance: Callable[[float], float],
) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of each mistake that might pass. A mistake further off than any tolerance surely does not."""
    values = _real(eager)
    truth = values if reference is None else _real(reference)
    is_finite = values.isfinite() & truth.isfinite()
    if not is_finite.any():
        return
    finite, true = values[is_finite], truth[is_finite]
    error = float((finite - true).abs().amax())
    bound = tolerance(error) + error
    largest = float(finite.abs().amax())
    negligible = _ZERO * largest
    if float(true.abs().amax()) <= negligible or not largest:  # where eager is 0, float64 may not underflow
        return
    if largest <= bound:
        yield "twice its values", eager * 2 if eager.dtype.itemsize > 1 else (eager.double() * 2).to(eager.dtype)
    spread = min(float(each.amax() - each.amin()) for each in (finite, true))
    if negligible < spread <= bound and not eager.is_complex():
        yield "two elements exchanged", _exchanged(eager, values)
    for name, tensor in inputs.items():
        if tensor.shape == eager.shape and tensor.dtype == eager.dtype and not torch.equal(tensor, eager):
            distance = (_real(tensor) - truth)[is_finite].nan_to_num(torch.inf).abs()
            if tolerance(0.0) < float(distance.amax()) <= bound:  # nearer, the function is the identity
                yield f"{name} itself", tensor


def _exchanged(eager: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A copy in which the largest and the smallest finite element have changed places."""
    flat = values.reshape(-1)
    places = [int(flat.nan_to_num(-torch.inf, -torch.inf, -torch.inf).argmax())]
    places.append(int(flat.nan_to_num(torch.inf, torch.inf, torch.inf).argmin()))
    result = eager.reshape(-1).clone()
    result[places] = result[places[::-1]]
    return result.view(eager.shape)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """In float64; complex numbers as two."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().to(torch.float64)


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
