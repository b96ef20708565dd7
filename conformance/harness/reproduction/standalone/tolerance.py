"""Which elements of a result are wrong. A part of each `reproduce.py`.

The rule is that of conformance/numerics/measurement.py, written again so that it needs torch alone. A selftest checks
that both give the same verdict.
"""

import torch


def wrong_elements(got, eager, limit):
    """Where `got` is wrong (bool, in its shape), and the rule as text. `limit`: see inputs.pt.

    Integers must be eager's. A floating element is right if

        |compiled - float64| <= factor × eager's error at that magnitude + floor × ulp(float64)

    where eager's error is at least what 1 ulp of the inputs changes. Infinity and NaN must be where eager's are, or
    float64's. If eager equals float64 everywhere, compiled must too.
    """
    expected, sensitivity = limit["expected"], torch.as_tensor(limit["sensitivity"], dtype=torch.float64)
    if got.is_complex():
        got, eager = (torch.view_as_real(tensor.resolve_conj()) for tensor in (got, eager))
        expected = None if expected is None else torch.view_as_real(expected.resolve_conj())
        sensitivity = sensitivity.unsqueeze(-1) if sensitivity.dim() else sensitivity
        wrong, rule = wrong_elements(got, eager, {**limit, "expected": expected, "sensitivity": sensitivity})
        return wrong.any(-1), rule
    if not eager.dtype.is_floating_point:
        return got != eager, "they must be equal"
    info, dtype = torch.finfo(eager.dtype), eager.dtype
    got, eager = got.double(), eager.double()
    if limit["exact"]:
        other_zero = (got == 0) & (torch.signbit(got) != torch.signbit(eager))
        return ~same(got, eager) | (other_zero & (eager == 0)), "they must be equal bit for bit"
    expected = eager if expected is None else expected
    finite, rounded = eager.isfinite(), expected.to(dtype).double()
    near_max = got.isinf() & expected.isfinite() & (got.sign() == expected.sign())
    near_max &= expected.abs() > info.max * (1 - 8 * info.eps)
    as_float64 = ~got.isfinite() & (same(got, rounded) | ~same(eager, rounded))  # else a rounding decides
    right = torch.where(finite, near_max, same(got, eager) | as_float64)
    misplaced = ~right & (~got.isfinite() | (~finite & ~expected.isfinite()))
    expected = torch.where(finite & ~expected.isfinite(), eager, expected)
    eager_error = torch.where(finite, (eager - expected).abs(), 0.0)
    magnitude = torch.where((right | misplaced) & ~finite, 0.0, expected.abs())
    if limit["may be exact"] and not eager_error.any() and shows_exactness(expected[finite]):
        allowed, rule = torch.zeros_like(magnitude), "eager is float64, rounded; compiled must be too: allowed error"
    else:
        at_magnitude = torch.maximum(error_at_magnitude(eager_error, magnitude), sensitivity)
        allowed = limit["factor"] * at_magnitude + limit["floor"] * ulp(magnitude, info, largest=limit["one ulp"])
        rule = f"allowed error: {limit['factor']:g} × eager's at that magnitude + {limit['floor']:g} ulp"
    wrong = misplaced | (~right & ~((got - expected).abs() <= allowed))
    return wrong, f"{rule} = {float(allowed[wrong][0]):.3g}" if wrong.any() else rule


def error_at_magnitude(error, magnitude):
    """For each element, the largest error of elements of no greater magnitude, and of at least 64 elements."""
    if not error.numel():
        return error
    order = magnitude.flatten().argsort()
    largest = error.flatten()[order].cummax(0).values
    largest[:64] = largest[:64].amax()
    return torch.empty_like(largest).scatter_(0, order, largest).view_as(error)


def ulp(magnitude, info, largest):
    """The distance between neighbouring numbers at each magnitude; `largest`: at the largest one."""
    magnitude = magnitude.amax() if largest and magnitude.numel() else magnitude
    _, exponent = torch.frexp(magnitude.clamp(min=info.smallest_normal))
    return info.eps * torch.pow(2.0, (exponent - 1).double())


def shows_exactness(values):
    """Whether a function that gives these values, rounded right, computes exactly."""
    return values.numel() >= 16 and (bool((values == values.round()).all()) or values.abs().unique().numel() >= 16)


def same(one, other):
    return (one == other) | (one.isnan() & other.isnan())
