"""Makes a value fit where another one was: its range, its dtype, its shape. Inductor sees it as code of a user."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

#: Ways to make a shape of another one that has more or fewer elements.
_SHAPES = ("first", "last", "repeated", "indexed", "mean")


@dataclass(frozen=True)
class Fit:
    """How one value becomes another one's substitute. Call it with the tensor.

    `bounds`: the least and the largest number that the place takes; None: any. `way`: one of _SHAPES.
    """

    shape: tuple[int, ...]
    dtype: Any
    bounds: tuple[float, float] | None
    way: str

    def __call__(self, value: Any) -> Any:
        if self.bounds is not None:
            low, high = self.bounds
            value = low + (high - low) * value.sigmoid()
        if value.dtype != self.dtype:
            value = value.to(self.dtype)
        return value if tuple(value.shape) == self.shape else self._shaped(value)

    def _shaped(self, value: Any) -> Any:
        import torch

        wanted = 1
        for size in self.shape:
            wanted *= size
        if value.dim() == len(self.shape) and all(
            has >= size for has, size in zip(value.shape, self.shape, strict=True)
        ):
            for dim, size in enumerate(self.shape):
                start = 0 if self.way == "first" else value.shape[dim] - size
                value = value.narrow(dim, start, size)
            return value
        count = value.numel()
        if count == wanted:
            return value.reshape(self.shape)
        if self.way == "mean" or not count:
            return value.mean().expand(self.shape)
        flat = value.flatten()
        if self.way == "indexed":
            return flat[torch.arange(wanted, device=value.device) * 7 % count].view(self.shape)
        if count < wanted:
            flat = flat.repeat(-(-wanted // count))
        return (flat[-wanted:] if self.way == "last" else flat[:wanted]).reshape(self.shape)


def fit_for(place: Any, chance: random.Random) -> Fit:
    """A way to take any floating tensor for `place`, a floating tensor with one element or more."""
    low, high = float(place.detach().amin()), float(place.detach().amax())
    bounded = low >= 0 or chance.random() < 0.3
    bounds = (round(low, 3), round(high, 3)) if bounded and low < high and abs(low) + abs(high) < 1e4 else None
    return Fit(tuple(place.shape), place.dtype, bounds, chance.choice(_SHAPES))
