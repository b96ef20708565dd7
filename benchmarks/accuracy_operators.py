"""The operators of benchmarks/accuracy.py: each with its exact value and with the limits of published tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import torch
import torch.nn.functional as F
from mpmath import mp
from mpmath.libmp import NoConvergence

mp.prec = 300

#: Float32 of OpenCL's full profile (KhronosGroup/OpenCL-Docs, env/numerical_compliance.asciidoc), in ulp.
#: 0.5: correctly rounded.
OPENCL = {
    "abs": 0,
    "acos": 4,
    "acosh": 4,
    "add": 0.5,
    "asin": 4,
    "asinh": 4,
    "atan": 5,
    "atan2": 6,
    "atanh": 5,
    "ceil": 0.5,
    "copysign": 0,
    "cos": 4,
    "cosh": 4,
    "deg2rad": 2,
    "div": 2.5,
    "erf": 16,
    "erfc": 16,
    "exp": 3,
    "exp2": 3,
    "expm1": 3,
    "floor": 0.5,
    "fmod": 0,
    "hypot": 4,
    "ldexp": 0.5,
    "log": 3,
    "log10": 3,
    "log1p": 2,
    "log2": 3,
    "mul": 0.5,
    "nextafter": 0,
    "pow": 16,
    "rad2deg": 2,
    "reciprocal": 2.5,
    "round": 0.5,
    "rsqrt": 2,
    "sin": 4,
    "sinh": 4,
    "sqrt": 3,
    "sub": 0.5,
    "tan": 5,
    "tanh": 5,
    "trunc": 0.5,
}
#: The CUDA Programming Guide's tables of float (5.5.6 to 5.5.8), in ulp of the rounded exact value.
CUDA = {
    "abs": 0,
    "acos": 2,
    "acosh": 4,
    "add": 0,
    "asin": 2,
    "asinh": 3,
    "atan": 2,
    "atan2": 3,
    "atanh": 3,
    "ceil": 0,
    "copysign": 0,
    "cos": 2,
    "cosh": 2,
    "div": 0,
    "erf": 2,
    "erfc": 4,
    "erfcx": 4,
    "erfinv": 2,
    "exp": 2,
    "exp2": 2,
    "expm1": 1,
    "floor": 0,
    "fmod": 0,
    "hypot": 3,
    "i0": 6,
    "i1": 6,
    "ldexp": 0,
    "lgamma": 6,
    "log": 1,
    "log10": 2,
    "log1p": 1,
    "log2": 1,
    "mul": 0,
    "ndtr": 5,
    "ndtri": 5,
    "nextafter": 0,
    "pow": 4,
    "reciprocal": 0,
    "round": 0,
    "rsqrt": 2,
    "sin": 2,
    "sinh": 3,
    "sqrt": 0,
    "sub": 0,
    "tan": 4,
    "tanh": 2,
    "trunc": 0,
}


@dataclass(frozen=True)
class Operator:
    """`function`: of tensors. `reference`: the same of float64, where the function itself is not exact enough there; it
    counts for finite inputs. `precise`: the same of mpmath's numbers. `inputs`: 1 or 2; `integer`: the second input is
    an integer.
    """

    name: str
    function: Callable[..., Any]
    reference: Callable[..., Any] | None = None
    precise: Callable[..., Any] | None = None
    inputs: int = 1
    integer: bool = False

    def exact(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The value in float64. `inputs`: of the dtype that is measured."""
        if self.name == "nextafter":  # which numbers are neighbours depends on the dtype
            return _nextafter(*inputs).double()
        wide = tuple(each.double() if each.is_floating_point() else each for each in inputs)
        value = self.function(*wide)
        if self.reference is None:
            return value
        finite = torch.stack([each.isfinite() for each in wide]).all(0)
        return torch.where(finite, self.reference(*wide), value)

    def precisely(self, *inputs: float) -> float | None:
        """The value from mpmath, rounded to float64. None if it has none: at poles, and outside of the domain."""
        if self.precise is None or not all(map(math.isfinite, inputs)):
            return None
        try:
            value = mpmath.mpmathify(self.precise(*(mpmath.mpf(each) for each in inputs)))
        except (ValueError, ZeroDivisionError, OverflowError, NoConvergence):
            return None
        if isinstance(value, mpmath.mpc) or not mpmath.isfinite(value):
            return None
        if value and mpmath.log(abs(value), 2) >= 1024:
            return math.copysign(math.inf, value)
        return float(value)


def _nextafter(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The neighbour of x on the way to y, from the bits."""
    bits = {2: torch.int16, 4: torch.int32}[x.element_size()]
    number = x.view(bits)
    larger = (x < y) == (x > 0)  # in magnitude: the sign is a bit of its own
    step = torch.where(larger, number + 1, number - 1)
    from_zero = torch.where(y < 0, torch.iinfo(bits).min + 1, 1).to(bits)
    step = torch.where(x == 0, from_zero, step)
    found = torch.where(x == y, y.view(bits), step).view(x.dtype)
    return torch.where(x.isnan() | y.isnan(), math.nan, found)


def _sin_pi(x: torch.Tensor) -> torch.Tensor:
    """The sine of pi times x; the reduction is exact."""
    return torch.sin(math.pi * (x - 2 * torch.round(x / 2)))


def _sinc(x: torch.Tensor) -> torch.Tensor:
    whole = (x == x.round()) & (x != 0)
    value = _sin_pi(x) / (math.pi * x)
    return torch.where(x == 0, 1.0, torch.where(whole, 0.0, value))


def _trigamma(x: torch.Tensor) -> torch.Tensor:
    reflected = (math.pi / _sin_pi(x - x.round())) ** 2 - torch.special.polygamma(1, 1 - x)
    return torch.where(x < 0.5, reflected, torch.special.polygamma(1, x.clamp(min=0.5)))


def _normal(x: torch.Tensor) -> torch.Tensor:
    return torch.erfc(-x / math.sqrt(2)) / 2


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + torch.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _tanhshrink(x: torch.Tensor) -> torch.Tensor:
    s = x * x
    series = x * s * (1 / 3 - s * (2 / 15 - s * (17 / 315 - s * (62 / 2835 - s * 1382 / 155925))))
    return torch.where(x.abs() < 0.1, series, x - torch.tanh(x))


def _elu(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, torch.expm1(x))


#: Of selu.
_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _selu(x: torch.Tensor) -> torch.Tensor:
    return _SCALE * torch.where(x > 0, x, _ALPHA * torch.expm1(x))


def _bessel(function: Callable[..., Any], order: int, second: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Hankel's expansion of large arguments, from the sine and the cosine of the argument itself."""

    def value(x: torch.Tensor) -> torch.Tensor:
        a = x.abs().clamp(min=1024)
        sine, cosine = torch.sin(a), torch.cos(a)
        mu, t = 4 * order**2, 1 / (8 * a)
        p = 1 - (mu - 1) * (mu - 9) * t**2 / 2
        q = (mu - 1) * t - (mu - 1) * (mu - 9) * (mu - 25) * t**3 / 6
        cos_phase, sin_phase = (sine - cosine, -(sine + cosine)) if order else (cosine + sine, sine - cosine)
        large = (p * sin_phase + q * cos_phase if second else p * cos_phase - q * sin_phase) / (math.pi * a).sqrt()
        if order and not second:
            large = large * x.sign()
        return torch.where((x.abs() < 1024) | (second and x < 0), function(x), large)

    return value


def _lgamma(x: Any) -> Any:
    if x > 0:
        return mpmath.loggamma(x)
    return mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x)


def _precise_trigamma(x: Any) -> Any:
    """The second derivative of lgamma; mpmath's own takes as many steps as x is below 0."""
    if x < 0.5:
        return (mpmath.pi / mpmath.sinpi(x)) ** 2 - mpmath.psi(1, 1 - x)
    return mpmath.psi(1, x)


def _logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x))


def _unary() -> list[Operator]:
    t, s, m = torch, torch.special, mpmath

    return [
        Operator("abs", t.abs),
        Operator("neg", t.neg),
        Operator("ceil", t.ceil),
        Operator("floor", t.floor),
        Operator("round", t.round),
        Operator("trunc", t.trunc),
        Operator("frac", t.frac),
        Operator("square", t.square),
        Operator("pow_3", lambda x: x**3),
        Operator("pow_half", lambda x: x**0.5),
        Operator("sqrt", t.sqrt, None, m.sqrt),
        Operator("rsqrt", t.rsqrt, None, lambda x: 1 / m.sqrt(x)),
        Operator("reciprocal", t.reciprocal, None, lambda x: 1 / x),
        Operator("exp", t.exp, None, m.exp),
        Operator("exp2", t.exp2, None, lambda x: m.power(2, x)),
        Operator("expm1", t.expm1, None, m.expm1),
        Operator("log", t.log, None, m.log),
        Operator("log2", t.log2, None, lambda x: m.log(x, 2)),
        Operator("log10", t.log10, None, m.log10),
        Operator("log1p", t.log1p, None, m.log1p),
        *(Operator(name, getattr(t, name), None, getattr(m, name)) for name in _TRIGONOMETRIC),
        Operator("sinc", t.sinc, _sinc, m.sincpi),
        Operator("deg2rad", t.deg2rad, None, m.radians),
        Operator("rad2deg", t.rad2deg, None, m.degrees),
        Operator("sigmoid", t.sigmoid, None, _logistic),
        Operator("logit", t.logit, None, lambda x: m.log(x / (1 - x))),
        Operator("erf", t.erf, None, m.erf),
        Operator("erfc", t.erfc, None, m.erfc),
        Operator("erfcx", s.erfcx, None, lambda x: m.exp(x * x) * m.erfc(x)),
        Operator("erfinv", t.erfinv, None, m.erfinv),
        Operator("ndtr", s.ndtr, _normal, m.ncdf),
        Operator("ndtri", s.ndtri, None, lambda x: m.sqrt(2) * m.erfinv(2 * x - 1)),
        Operator("log_ndtr", s.log_ndtr, None, lambda x: m.log(m.ncdf(x))),
        Operator("lgamma", t.lgamma, None, _lgamma),
        Operator("digamma", t.digamma, None, m.digamma),
        Operator("trigamma", lambda x: s.polygamma(1, x), _trigamma, _precise_trigamma),
        Operator("entr", s.entr, None, lambda x: -x * m.log(x)),
        Operator("i0", s.i0, None, lambda x: m.besseli(0, x)),
        Operator("i1", s.i1, None, lambda x: m.besseli(1, x)),
        Operator("i0e", s.i0e, None, lambda x: m.exp(-abs(x)) * m.besseli(0, x)),
        Operator("i1e", s.i1e, None, lambda x: m.exp(-abs(x)) * m.besseli(1, x)),
        Operator("bessel_j0", s.bessel_j0, _bessel(s.bessel_j0, 0, second=False), lambda x: m.besselj(0, x)),
        Operator("bessel_j1", s.bessel_j1, _bessel(s.bessel_j1, 1, second=False), lambda x: m.besselj(1, x)),
        Operator("bessel_y0", s.bessel_y0, _bessel(s.bessel_y0, 0, second=True), lambda x: m.bessely(0, x)),
        Operator("bessel_y1", s.bessel_y1, _bessel(s.bessel_y1, 1, second=True), lambda x: m.bessely(1, x)),
        Operator("modified_bessel_k0", s.modified_bessel_k0, None, lambda x: m.besselk(0, x)),
        Operator("modified_bessel_k1", s.modified_bessel_k1, None, lambda x: m.besselk(1, x)),
        Operator("spherical_bessel_j0", s.spherical_bessel_j0, None, m.sinc),
        Operator("relu6", F.relu6),
        Operator("hardswish", F.hardswish),
        Operator("hardsigmoid", F.hardsigmoid),
        Operator("leaky_relu", F.leaky_relu),
        Operator("softsign", F.softsign),
        Operator("gelu", F.gelu, lambda x: x * _normal(x), lambda x: x * m.ncdf(x)),
        Operator("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), _gelu_tanh),
        Operator("silu", F.silu, None, lambda x: x * _logistic(x)),
        Operator("mish", F.mish, None, lambda x: x * m.tanh(_softplus(x))),
        Operator("softplus", F.softplus, None, _softplus),
        Operator("logsigmoid", F.logsigmoid, None, lambda x: -_softplus(-x)),
        Operator("tanhshrink", F.tanhshrink, _tanhshrink, lambda x: x - m.tanh(x)),
        Operator("elu", F.elu, _elu, lambda x: x if x > 0 else m.expm1(x)),
        Operator("celu", F.celu, _elu, lambda x: x if x > 0 else m.expm1(x)),
        Operator("selu", F.selu, _selu),
    ]


_TRIGONOMETRIC = (
    *("sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)


def _fmod(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The remainder of a truncated quotient: exact in C's library."""
    import numpy as np

    with np.errstate(all="ignore"):
        return torch.from_numpy(np.fmod(x.numpy(), y.numpy()))


def _remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    found = _fmod(x, y)
    return torch.where((found != 0) & (found.sign() != y.sign()), found + y, found)


def _logaddexp(x: Any, y: Any) -> Any:
    return max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y)))


def _binary() -> list[Operator]:
    t, s, m = torch, torch.special, mpmath
    return [
        Operator("add", t.add, inputs=2),
        Operator("sub", t.sub, inputs=2),
        Operator("mul", t.mul, inputs=2),
        Operator("div", t.div, inputs=2),
        Operator("pow", t.pow, None, m.power, inputs=2),
        Operator("atan2", t.atan2, None, m.atan2, inputs=2),
        Operator("fmod", t.fmod, _fmod, inputs=2),
        Operator("remainder", t.remainder, _remainder, inputs=2),
        Operator("floor_divide", t.floor_divide, lambda x, y: t.floor(x / y), inputs=2),
        Operator("hypot", t.hypot, lambda x, y: t.sqrt(x * x + y * y), m.hypot, inputs=2),
        Operator("copysign", t.copysign, inputs=2),
        Operator("nextafter", t.nextafter, inputs=2),
        Operator("logaddexp", t.logaddexp, None, _logaddexp, inputs=2),
        Operator("xlogy", t.xlogy, None, lambda x, y: x * m.log(y), inputs=2),
        Operator("xlog1py", s.xlog1py, None, lambda x, y: x * m.log1p(y), inputs=2),
        Operator("ldexp", t.ldexp, t.ldexp, inputs=2, integer=True),
    ]


OPERATORS = sorted([*_unary(), *_binary()], key=lambda operator: operator.name)
