"""Axes: the lists and dicts of a declaration, their labels, and the combinations of their values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.errors import ConformanceError

_LABEL = re.compile(r"[A-Za-z0-9_.+]+")


class CaseError(ConformanceError, ValueError):
    """A case that is declared wrongly. The message says where, what is wrong, and what would be right."""


@dataclass(frozen=True)
class Axis:
    """`name`: "dtype", or "x.dtype" if it belongs to one input. `values`: label → value; the first is the base."""

    name: str
    values: Mapping[str, Any]

    @classmethod
    def from_values(cls, name: str, values: Any) -> Axis:
        """An axis from a list of values or a dict of label → value. Raises CaseError for labels that cannot be used."""
        if isinstance(values, Mapping):
            labelled = dict(values)
        else:
            labelled = {}
            for value in values:
                label = label_of(name.rpartition(".")[2], value)
                if label in labelled:
                    raise CaseError(
                        f"axis {name!r} has the label {label!r} twice; remove one of the two values, "
                        "or label the values yourself: {'label': value}"
                    )
                labelled[label] = value
        if not labelled:
            raise CaseError(f"axis {name!r} has no values; give it at least one, or leave the keyword out")
        for label in labelled:
            if not _LABEL.fullmatch(label):
                raise CaseError(
                    f"axis {name!r}: the label {label!r} cannot be part of a test id; use letters, digits, '_', '.' "
                    "and '+', and label other values yourself: {'label': value}"
                )
        return cls(name, labelled)


def label_of(axis: str, value: Any) -> str:
    """The label of an axis's value, as it stands in an id: 224, u8, 64x1000, beta0.5, backward, dynamic."""
    if axis == "grad" and isinstance(value, (bool, str)):
        return {True: "backward", False: "forward", "": "forward"}.get(value) or f"grad_{str(value).replace(' ', '_')}"
    if axis == "training":
        return "train" if value else "eval"
    if axis == "dynamic":
        return "dynamic" if value else "static"
    if isinstance(value, bool):
        return axis if value else f"no_{axis}"
    if isinstance(value, (tuple, list)):
        return "x".join(str(size) for size in value) or "0d"
    if isinstance(value, (int, float)) and axis != "size":
        return f"{axis}{value:g}".replace("-", "m")
    return str(value)


def is_axis(name: str, value: Any) -> bool:
    """Whether a keyword's value is an axis: a list, or a dict of label → value.

    A dict of compiler options, `config={"cpp.simdlen": 1}`, is one value; a dict of such dicts is an axis.
    """
    if name == "config" and isinstance(value, Mapping):
        return bool(value) and all(isinstance(options, Mapping) for options in value.values())
    return isinstance(value, (list, Mapping))


def declared_rows(
    axes: Sequence[Axis], vary: str, also: Sequence[Mapping[str, Any]], where: str
) -> Iterator[tuple[str, ...]]:
    labels = [list(axis.values) for axis in axes]
    if vary == "product":
        yield from itertools.product(*labels)
    else:
        base = tuple(names[0] for names in labels)
        yield base
        for position, names in enumerate(labels):
            for other in names[1:]:
                yield (*base[:position], other, *base[position + 1 :])
    for combination in also:
        yield _row(axes, combination, where)


def _row(axes: Sequence[Axis], combination: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The labels of a combination from `also`, with the base label on the axes that it does not name."""
    names = [axis.name for axis in axes]
    unknown = set(combination) - set(names)
    if unknown:
        raise CaseError(f"{where}: also= names the axis {min(unknown)!r}; the axes are {', '.join(names) or 'none'}")
    row = []
    for axis in axes:
        wanted = combination.get(axis.name, next(iter(axis.values)))
        is_label = isinstance(wanted, str) and wanted in axis.values
        label = wanted if is_label else label_of(axis.name.rpartition(".")[2], wanted)
        if label not in axis.values:
            raise CaseError(
                f"{where}: also= wants {axis.name}={wanted!r}; the labels of {axis.name} are {', '.join(axis.values)}"
            )
        row.append(label)
    return tuple(row)
