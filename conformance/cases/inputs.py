"""Inputs: how the arguments of a case are made, on the CPU, before a device is chosen.

A property of an input that is a list or a dict is an axis of the case. A property that the input does not set comes
from the keyword of @case with that name, else from the default. In
`@case(x=tensor(20), y=tensor(20), dtype=["f32", "bf16"])` both inputs have the same dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.cases.dtypes import (
    DTYPES,
    EVERY_VALUE_BYTES,
    EVERY_VALUE_DTYPES,
    EVERY_VALUE_STEP,
    EVERY_VALUE_WIDE_DTYPES,
    INTEGERS,
    dtype_of,
)
from conformance.cases.property_values import (
    problem_of_bound,
    problem_of_layout,
    problem_of_name,
    problem_of_shape,
    problem_of_size,
)
from conformance.cases.seeds import seed_of
from conformance.containers import Leaf

if TYPE_CHECKING:
    import torch

LAYOUTS = ("contiguous", "channels_last", "transposed", "sliced", "offset", "strided", "expanded")

#: Sizes at which generated code often goes wrong: 0, 1, around a vector of 8 or 16, a prime, around a block of 1024.
EDGE_SIZES = (0, 1, 7, 8, 15, 16, 17, 31, 127, 1023, 1024, 1025)

#: Times a position: where the value is among the neighbours that `step` of every_value() skips.
_SCATTERED = 0x9E3779B1
#: Arguments of tensor() that are numbers, or None.
_BOUNDS = ("low", "high", "zeros")
#: (before, after) of rows and of columns: torchvision's benchmarks slice rows 9:-12 and columns 12:-10.
SLICE_MARGINS = ((9, 12), (12, 10))


def edges(*around: int | None, sizes: Sequence[int] = EDGE_SIZES) -> list[tuple[int, ...]]:
    """Shapes for an axis: the dimension that is None takes each of EDGE_SIZES.

    `shape=edges()` is (0,), (1,), (7,) and so on. `shape=edges(64, None)` is (64, 0), (64, 1), (64, 7) and so on.
    """
    around = around or (None,)
    return [tuple(size if fixed is None else fixed for fixed in around) for size in sizes]


class Recipe(Leaf):
    """How a case makes one tensor or one module: an argument, or a member of one.

    `properties`: name → a value, an axis (list or dict), or None for the value of the case. `inherited`: the
    properties that may come from the case; None: all.
    """

    properties: Mapping[str, Any]
    inherited: tuple[str, ...] | None = None

    @property
    def open_properties(self) -> list[str]:
        """The properties that it leaves to the case."""
        names = self.properties if self.inherited is None else self.inherited
        return [name for name in names if self.properties[name] is None]

    def values(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Property → value, without those that nobody sets."""
        return {name: value for name, value in choice.items() if value is not None}

    def can_have_gradient(self, choice: Mapping[str, Any]) -> bool:
        """Whether it can require a gradient: its dtype is floating or complex, or unknown."""
        return str(self.values(choice).get("dtype", "f32")) not in INTEGERS

    def problem_of(self, choice: Mapping[str, Any]) -> str:
        """What is wrong with a value of a property, beginning with its name; "" if nothing is."""
        raise NotImplementedError

    def build(self, choice: Mapping[str, Any], position: int, call: int) -> Any:
        """The tensor or module on the CPU. See Input.build."""
        raise NotImplementedError


@dataclass(frozen=True)
class Input(Recipe):
    """A tensor.

    `make`: makes the tensor from the properties and a `generator`. `properties`: name → a value, an axis (list or
    dict), or None for the value of the case. `defaults`: values for properties that neither sets. `every_value`: the
    tensor holds each value that it may have, so it needs no special values; `make` then takes `in_order` too.
    `special_values`: whether calls with special values write some into the tensor. `problem`: what is wrong with the
    properties, or ""; it says what `make` would raise.
    """

    make: Callable[..., torch.Tensor]
    properties: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    every_value: bool = False
    special_values: bool = True
    problem: Callable[[Mapping[str, Any]], str] = field(default=lambda _: "", repr=False, compare=False)

    def problem_of(self, choice: Mapping[str, Any]) -> str:
        """What is wrong with a value of a property, beginning with its name; "" if nothing is."""
        return self.problem(self.values(choice))

    def values(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Property → value, with the defaults of those that `choice` does not set."""
        return dict(self.defaults) | super().values(choice)

    def seed(self, choice: Mapping[str, Any], position: int, call: int | str) -> int:
        """The seed of the tensor: its properties, its position in the signature, and the call.

        `call`: the number of an ordinary call, or the group of special values.
        """
        return seed_of(sorted(self.values(choice).items(), key=str), position, call)

    def build(self, choice: Mapping[str, Any], position: int, call: int | str) -> torch.Tensor:
        """The tensor on the CPU. `choice`: property → value. `position`, `call`: as for `seed`.

        The same choice, position, call and seed of the run give the same tensor. An input with every value has them in
        the order of their bits in call 0, and else in the seed's order.
        """
        import torch

        values = self.values(choice)
        seed = self.seed(choice, position, call)
        if self.every_value:
            values["in_order"] = call == 0
        return self.make(generator=torch.Generator().manual_seed(seed), **values).detach()


def tensor(
    *shape: int,
    dtype: Any = None,
    layout: Any = None,
    low: float | None = None,
    high: float | None = None,
    zeros: float = 0.0,
    **axes: Any,
) -> Input:
    """An input: a tensor of random values.

    `shape`: the sizes, `tensor(64, 1000)`; or an axis, `tensor(shape=[(20,), (64, 1000)])`; or left out, if @case has a
    keyword `shape`.
    `dtype`: one of DTYPES (default f32). Floating and complex values are normally distributed. Integers are uniform in
    the dtype's range, but not below -128 or above 255.
    `layout`: one of LAYOUTS (default contiguous):

        channels_last  torch.channels_last of 4 dimensions, torch.channels_last_3d of 5
        transposed     the last two dimensions are swapped in memory
        sliced         the last two dimensions are a part of a larger tensor, with a storage offset
        offset         contiguous, from the second element of the storage on
        strided        every other element of the last dimension
        expanded       one row, repeated along the first dimension with stride 0

    `low`, `high`: values are uniform from `low` to `high` instead, without `high` (defaults 0 and 1). Special values
    stay in this range too.
    `zeros`: about this share of the elements is 0 (False) instead, at random places.
    Raises ValueError for an unknown property.
    """
    unknown = set(axes) - {"shape"}
    if unknown:
        raise ValueError(f"tensor() has no property {min(unknown)!r}; it has shape, dtype, layout, low, high and zeros")
    properties = {"shape": axes.get("shape", tuple(shape) or None), "dtype": dtype, "layout": layout}
    defaults = {"dtype": "f32", "layout": "contiguous", "low": low, "high": high, "zeros": zeros}
    return Input(_tensor, properties, defaults, problem=_problem_of_tensor)


def image(channels: int = 3, *, size: Any = None, dtype: Any = None, layout: Any = None) -> Input:
    """An input: one image of shape (1, channels, size, size), by default u8 and 224 × 224. Properties: see tensor()."""
    properties = {"size": size, "dtype": dtype, "layout": layout}
    return Input(
        _image,
        properties,
        {"channels": channels, "size": 224, "dtype": "u8", "layout": "contiguous"},
        problem=_problem_of_image,
    )


def every_value(
    dtype: Any, *, low: float | None = None, high: float | None = None, without: Any = (), step: int = 1
) -> Input:
    """An input: a tensor of one dimension with every value of a dtype of at most 16 bits, each exactly once.

    `dtype`: "f16", "bf16" and "i16" have 65,536 values, "i8" and "u8" have 256, "bool" has 2. A floating dtype has all
    its NaNs, infinities, denormals, and both zeros. May be an axis.
    `low`, `high`: only values from `low` to `high`, both included, and no NaN. One of them may be left out.
    `without`: values that are left out, as a tuple of numbers.
    `step`: one value of each so many neighbours, chosen by its position alone. With a step of 65,536, "f32" and "i32"
    have 65,536 values: so all exponents and both signs of f32.

    The first call of the numerics check has the values in the order of their bits: first the positive numbers,
    ascending. So the elements of a vector take the same branch. Further calls have another order for each seed: so the
    elements of a vector take different branches.
    Building raises ValueError for another dtype.
    """
    return Input(
        _every_value,
        {"dtype": dtype},
        {"low": low, "high": high, "without": without, "step": step},
        every_value=True,
        problem=_problem_of_every_value,
    )


def _named(name: str, value: Any, problem: str) -> str:
    return f"{name} is {value!r}: {problem}" if problem else ""


def _problem_of_tensor(values: Mapping[str, Any]) -> str:
    shape, layout = values.get("shape"), values["layout"]
    return (
        _named("dtype", values["dtype"], problem_of_name(values["dtype"], DTYPES))
        or _named("layout", layout, problem_of_name(layout, LAYOUTS))
        or _named("shape", shape, problem_of_shape(shape))
        or _named("layout", layout, problem_of_layout(layout, shape or ()))
        or next(
            filter(None, (_named(name, values.get(name), problem_of_bound(values.get(name))) for name in _BOUNDS)), ""
        )
    )


def _problem_of_image(values: Mapping[str, Any]) -> str:
    shape = (1, values["channels"], values["size"], values["size"])
    return (
        _named("channels", values["channels"], problem_of_size(values["channels"]))
        or _named("size", values["size"], problem_of_size(values["size"]))
        or _problem_of_tensor({**values, "shape": shape})
    )


def _problem_of_every_value(values: Mapping[str, Any]) -> str:
    step = values["step"]
    if not isinstance(step, int) or isinstance(step, bool) or step < 1 or step & (step - 1):
        return _named("step", step, "it must be a power of two")
    wide = EVERY_VALUE_WIDE_DTYPES if step >= EVERY_VALUE_STEP else ()
    small = {name: theirs for name, theirs in DTYPES.items() if name in (*EVERY_VALUE_DTYPES, *wide)}
    problem = problem_of_name(values.get("dtype"), small)
    why = (
        f"; only dtypes of at most 16 bits have few enough values, and with a step of {EVERY_VALUE_STEP:,} f32 and i32"
    )
    return _named("dtype", values.get("dtype"), problem and problem + why)


def _every_value(
    *,
    dtype: str,
    low: float | None,
    high: float | None,
    without: Sequence[float],
    step: int,
    in_order: bool,
    generator: torch.Generator,
) -> torch.Tensor:
    import torch

    kind = dtype_of(dtype)
    if kind == torch.bool:
        values = torch.tensor([False, True])
    elif kind.is_complex or (1 << 8 * kind.itemsize) // step > 1 << 8 * EVERY_VALUE_BYTES:
        raise ValueError(f"every_value() has no dtype {dtype!r}: only dtypes of at most 16 bits have few enough values")
    else:
        bits = torch.arange((1 << 8 * kind.itemsize) // step)
        bits = bits * step + ((bits * _SCATTERED >> 16) & (step - 1))
        values = bits.to({1: torch.uint8, 2: torch.int16, 4: torch.int32}[kind.itemsize]).view(kind)
    if low is not None or high is not None or without:
        wide = values.double()
        keep = ~wide.isnan() if low is not None or high is not None else torch.ones_like(wide, dtype=torch.bool)
        keep &= wide.ge(low) if low is not None else keep
        keep &= wide.le(high) if high is not None else keep
        for value in without:
            keep &= wide != value
        values = values[keep]
    return values if in_order else values[torch.randperm(len(values), generator=generator)]


def _image(*, channels: int, size: int, dtype: str, layout: str, generator: torch.Generator) -> torch.Tensor:
    return _tensor(shape=(1, channels, size, size), dtype=dtype, layout=layout, generator=generator)


def _tensor(
    *,
    shape: Sequence[int],
    dtype: str,
    layout: str,
    generator: torch.Generator,
    low: float | None = None,
    high: float | None = None,
    zeros: float = 0.0,
) -> torch.Tensor:
    import torch

    def values(shape: Sequence[int]) -> torch.Tensor:
        found = _values(tuple(shape), dtype_of(dtype), generator, low, high)
        return found * (torch.rand(shape, generator=generator) >= zeros) if zeros else found

    if layout == "contiguous":
        return values(shape)
    if layout == "channels_last":
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        if len(shape) not in formats:
            raise ValueError(f"channels_last needs 4 or 5 dimensions, but the shape is {tuple(shape)}")
        return values(shape).contiguous(memory_format=formats[len(shape)])
    if layout == "offset":
        return values((math.prod(shape) + 1,))[1:].view(tuple(shape))
    if layout == "strided":
        return values((*shape[:-1], 2 * shape[-1]))[..., ::2]
    if layout == "expanded":
        return values((1, *shape[1:])).expand(tuple(shape))
    if layout == "transposed":
        return values((*shape[:-2], shape[-1], shape[-2])).mT
    if layout == "sliced":
        (top, bottom), (left, right) = SLICE_MARGINS
        whole = values((*shape[:-2], shape[-2] + top + bottom, shape[-1] + left + right))
        return whole[..., top:-bottom, left:-right]
    raise ValueError(f"unknown layout {layout!r}: known are {', '.join(LAYOUTS)}")


def _values(
    shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, low: float | None, high: float | None
) -> torch.Tensor:
    import torch

    if low is not None or high is not None:
        low, high = (0 if low is None else low), (1 if high is None else high)
        if dtype.is_floating_point:
            return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
        return torch.randint(int(low), int(high), shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(shape, generator=generator, dtype=wide).to(dtype)
    info = torch.iinfo(dtype)
    return torch.randint(max(info.min, -128), min(info.max, 255) + 1, shape, generator=generator).to(dtype)
