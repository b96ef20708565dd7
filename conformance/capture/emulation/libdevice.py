"""Implements the libdevice functions by torch's functions: Triton's interpreter does not implement them.

The vendors' functions take float32 or float64 and return the same dtype. Predicates return int32. A function that is
missing here raises NotEmulatedError with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.dtypes import storage_dtype
from conformance.capture.emulation.errors import NotEmulatedError


def _floats() -> dict[str, Callable[..., Any]]:
    """Name → function of floating torch tensors of one dtype and shape; its result has that dtype and shape."""
    import torch

    special = torch.special
    same = {name: getattr(torch, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "abs", "ceil", "copysign", "cos", "cosh", "erf",
        "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "fmod", "hypot", "lgamma", "log", "log10", "log1p",
        "log2", "nextafter", "pow", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "remainder")}  # fmt: skip
    names = {
        "nearbyint": torch.round,
        "rint": torch.round,
        "remainder": _ieee_remainder,
        "round": lambda x: torch.where(x.abs() < 2**52, torch.copysign((x.abs() + 0.5).floor(), x), x),
        "cbrt": lambda x: torch.copysign(x.abs() ** (1 / 3), x),
        "rcbrt": lambda x: 1 / torch.copysign(x.abs() ** (1 / 3), x),
        "exp10": lambda x: torch.pow(torch.full_like(x, 10.0), x),
        "fdim": lambda x, y: torch.where(x > y, x - y, torch.where(x.isnan() | y.isnan(), torch.nan, 0.0)),
        "fma": lambda x, y, z: (x.double() * y.double() + z.double()).to(x.dtype),
        "saturatef": lambda x: x.nan_to_num(0.0).clamp(0, 1),
        "sinpi": lambda x: torch.sin(x * torch.pi),
        "cospi": lambda x: torch.cos(x * torch.pi),
        "rhypot": lambda x, y: 1 / torch.hypot(x, y),
        "tgamma": _gamma,
        "logb": lambda x: torch.floor(torch.log2(x.abs())),
        "normcdf": special.ndtr,
        "normcdfinv": special.ndtri,
        "erfcx": special.erfcx,
        "j0": special.bessel_j0,
        "j1": special.bessel_j1,
        "y0": special.bessel_y0,
        "y1": special.bessel_y1,
        "cyl_bessel_i0": special.i0,
        "cyl_bessel_i1": special.i1,
    }
    fast = {f"fast_{name}f": same[name] for name in ("sin", "cos", "log2", "log", "exp", "tanh", "tan", "log10")}
    fast |= {"fast_dividef": torch.div, "fast_powf": torch.pow, "fast_exp10f": names["exp10"]}
    rounded = {"add_rn": torch.add, "sub_rn": torch.sub, "mul_rn": torch.mul, "div_rn": torch.div,
               "sqrt_rn": torch.sqrt, "rsqrt_rn": torch.rsqrt, "rcp_rn": torch.reciprocal,
               "fma_rn": names["fma"]}  # fmt: skip
    return same | names | fast | rounded


def _predicates() -> dict[str, Callable[..., Any]]:
    """Name → function from a floating torch tensor to a bool tensor of its shape."""
    import torch

    names = {"isnan": torch.isnan, "isinf": torch.isinf, "signbit": torch.signbit}
    return names | {"finitef": torch.isfinite, "isfinited": torch.isfinite}


def _ieee_remainder(x: Any, y: Any) -> Any:
    """The remainder x - y * n. n is the integer nearest to x / y, ties to even."""
    import torch

    return torch.from_numpy(np.asarray(_numpy_remainder(x.numpy(), y.numpy()), dtype=x.numpy().dtype))


def _gamma(x: Any) -> Any:
    import torch

    reflected = torch.lgamma(x).exp()
    negative = (x < 0) & (torch.floor(x).remainder(2) != 0)
    return torch.where(negative, -reflected, reflected)


def _numpy_remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rest = np.fmod(x, y)
    twice = np.abs(rest) * 2
    odd = np.fmod(np.trunc(x / y), 2) != 0
    over = (twice > np.abs(y)) | ((twice == np.abs(y)) & odd)
    return np.where(over, rest - np.copysign(y, rest), rest)


def libdevice_functions() -> dict[str, Callable[..., Any]]:
    """Name → the replacement of the function of triton.language.extra.libdevice."""
    import triton.language.extra.libdevice as module

    floats, predicates, integers = _floats(), _predicates(), _integer_functions()
    replacements = {}
    for name, original in vars(module).items():
        if name.startswith("_") or not callable(original) or getattr(original, "__module__", "") != module.__name__:
            continue
        if name in integers:
            replacements[name] = integers[name]
        elif name in floats:
            replacements[name] = _from_torch(floats[name], None)
        elif name in predicates:
            replacements[name] = _from_torch(predicates[name], tl.int32)
        else:
            replacements[name] = _not_emulated(name)
    return replacements


def _integer_functions() -> dict[str, Callable[..., Any]]:
    """Name → function with integer arguments or results."""
    whole = {"llrint": np.rint, "llround": lambda x: np.trunc(x + np.copysign(0.5, x))}
    functions = {name: _from_numpy(op, tl.int64) for name, op in whole.items()}
    functions["ilogb"] = _from_numpy(lambda x: np.frexp(x)[1] - 1, tl.int32)
    functions["ldexp"] = functions["scalbn"] = _from_numpy(np.ldexp, None)
    functions["popc"] = _from_numpy(lambda x: np.unpackbits(x[..., None].view(np.uint8), axis=-1).sum(-1), tl.int32)
    views = {"int_as_float": tl.float32, "uint_as_float": tl.float32, "float_as_int": tl.int32,
             "float_as_uint": tl.uint32, "longlong_as_double": tl.float64, "double_as_longlong": tl.int64}  # fmt: skip
    for name, dtype in views.items():
        functions[name] = _from_numpy(lambda x, d=dtype: np.ascontiguousarray(x).view(storage_dtype(d)), dtype)
    return functions


def _from_torch(function: Callable[..., Any], result: Any) -> Callable[..., Any]:
    """A libdevice function that calls a function of torch tensors. `result`: see `_from_numpy`."""
    import torch

    def apply(*arrays: np.ndarray) -> np.ndarray:
        # Computes in float64: torch's vectorised float32 functions are less exact (sinh overflows early, erf is good
        # to 1e-7 only). But nextafter depends on the dtype.
        keep_dtype = function is torch.nextafter
        tensors = [torch.from_numpy(np.array(array)) for array in arrays]
        return function(*(t if keep_dtype or not t.is_floating_point() else t.double() for t in tensors)).numpy()

    return _from_numpy(apply, result)


def _from_numpy(function: Callable[..., np.ndarray], result: Any) -> Callable[..., Any]:
    """A libdevice function that calls a function of numpy arrays.

    `result`: the Triton dtype of the result; None: the dtype of the first argument.
    """

    def call(*args: Any, _semantic: Any = None) -> Any:
        tensors = [arg if isinstance(arg, tl.core.tensor) else _scalar(arg) for arg in args]
        shaped = max(tensors, key=lambda t: len(t.shape) if t.type.is_block() else 0)
        rank = shaped.handle.data.ndim
        # The first axis counts the programs, in scalars too.
        arrays = [t.handle.data.reshape(t.handle.data.shape + (1,) * (rank - t.handle.data.ndim)) for t in tensors]
        dtype = result or tensors[0].dtype
        value = np.asarray(function(*arrays)).astype(storage_dtype(dtype))
        kind = tl.block_type(dtype, list(value.shape[1:])) if shaped.type.is_block() else dtype  # arguments broadcast
        return tl.core.tensor(TensorHandle(value, dtype), kind)

    return call


def _scalar(value: Any) -> Any:
    value = tl.core._unwrap_if_constexpr(value)
    dtype = tl.float32 if isinstance(value, float) else tl.int32
    return tl.core.tensor(TensorHandle(np.array([value], dtype=storage_dtype(dtype)), dtype), dtype)


def _not_emulated(name: str) -> Callable[..., Any]:
    def call(*_args: Any, **_kwargs: Any) -> Any:
        raise NotEmulatedError(f"the emulation does not implement libdevice.{name}")

    return call
