"""Speeds: how fast the device of a target is at best. The table is speeds.toml; each figure has its source there."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conformance.devices.targets import Target
from conformance.errors import ConformanceError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The table.
TABLE = Path(__file__).with_name("speeds.toml")

_TEXTS = ("product", "source", "assumed")
#: Classes of operations of loops; another one without a figure is an error. Only f64 may be missing.
LOOPS = ("f64", "f32", "integer")
MATRICES = ("f64", "f32", "tf32", "bf16", "f16", "f8", "i8")


class SpeedsError(ConformanceError, ValueError):
    """A target without speeds, an unknown product, or a wrong row; the message names those that exist."""


@dataclass(frozen=True)
class Speeds:
    """One product. `bandwidth`: bytes a second. `start`: seconds that the smallest kernel takes on the device.

    `rates`: class of operations, such as "f32" or "matrix bf16" → operations a second; a multiply-add counts as two.
    """

    target: str
    product: str
    source: str
    assumed: str
    bandwidth: float
    start: float
    rates: Mapping[str, float]

    def rate(self, kind: str) -> float:
        """The operations a second of a class. Without a figure: that of loops in f32, or in f64 for f64.

        So bf16 on a device without tensor cores for it is as fast as f32. f64 without a figure is computed as if it
        were f32: the device has no f64.
        """
        plain = kind.removeprefix("matrix ")
        fallback = plain if plain in LOOPS and plain in self.rates else "integer" if plain == "i8" else "f32"
        return self.rates.get(kind, self.rates[fallback])


def speeds_of(target: Target, product: str = "") -> Speeds:
    """The speeds of a target's device. `product`: a part of a product's name, "" for the first row.

    Raises SpeedsError if the table has no row for the target, or none for the product.
    """
    rows = speeds().get(target.name)
    if not rows:
        raise SpeedsError(f"no speeds of {target.name} are known, so nothing can be estimated: known are {_known()}")
    for row in rows:
        if product.lower() in row.product.lower():
            return row
    names = ", ".join(repr(row.product) for row in rows)
    raise SpeedsError(f"{target.name} has no product {product!r}: it has {names}")


@cache
def speeds(path: Path = TABLE) -> dict[str, list[Speeds]]:
    """Target → its products. Raises SpeedsError, which names the row and its mistake."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: [_speeds(name, row) for row in rows] for name, rows in tables.items()}


def _known() -> str:
    return ", ".join(speeds())


def _speeds(name: str, row: Mapping[str, Any]) -> Speeds:
    figures = {key: value for key, value in row.items() if key not in _TEXTS}
    allowed = {"bandwidth", "start", *LOOPS, *(f"matrix_{each}" for each in MATRICES)}
    for key in (*_TEXTS, "bandwidth", "start", "f32", "integer"):
        if key not in row:
            raise SpeedsError(f"speeds of {name}: {key} is missing")
    for key, value in figures.items():
        if key not in allowed:
            raise SpeedsError(
                f"speeds of {name}: unknown key {key!r}; known are {', '.join((*_TEXTS, *sorted(allowed)))}"
            )
        if not isinstance(value, (int, float)) or value <= 0:
            raise SpeedsError(f"speeds of {name}: {key} is {value!r}; it must be a positive number")
    rates = {key.replace("_", " "): value * 1e12 for key, value in figures.items() if key not in ("bandwidth", "start")}
    texts = {key: str(row[key]) for key in _TEXTS}
    return Speeds(name, **texts, bandwidth=row["bandwidth"] * 1e9, start=row["start"] * 1e-6, rates=rates)
