"""Excuses: which problems of an item a known failure names. Parsed from `problems` in known_failures/*.toml.

problems = [
  { call = ["first", "second"], tensor = "output[1]", rule = "strides" },
  { call = "nan", tensor = "output", rule = "values", changes = "NaN → 0", share = 0.1 },
  { call = "ties", tensor = "gradient of x", rule = "values", changes = "number → number", off_by = 0.5 },
  { call = "inf", rule = "raises", error = "IndexError: index 7 is out of bounds" },
]

call      an ordinary call (first, second), other cotangents (expanded cotangents, permuted cotangents), other sizes
          (sizes + 1, sizes × 2 - 1), a group of special values, other inputs ("x transposed", "size 5 → 1"), "*"; or a
          list
tensor    output, output[1], gradient of x, x after the call; for aliasing both, "output, x"; or a list
rule      one of RULES in numerics/problem.py
changes   for values: what eager's elements are → what compiled's are: NaN, inf, -inf, 0, -0, number; or a list
off_by    for values: the largest |compiled - eager| of elements that are finite in both; 0 without it
share     for values: at most this share of the tensor's elements is wrong; 1 without it
error     a part of the problem's text; * stands for any text, as in call and tensor
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from conformance.cases.other_inputs import is_name
from conformance.cases.special_values import GROUPS
from conformance.cases.tolerance_policy import COTANGENT_CALLS
from conformance.errors import ConformanceError
from conformance.numerics.problem import (
    KINDS,
    NEXT_CALL,
    OF_THE_DECLARATION,
    ORDINARY_CALLS,
    RULES,
    SIZE_CALLS,
    Excuse,
)

_CALLS = (*ORDINARY_CALLS, NEXT_CALL, *COTANGENT_CALLS, *SIZE_CALLS, *GROUPS)
#: Rules of the whole call, without a tensor.
_WHOLE = ("structure", "raises", "recompiles", "random numbers")


class _Kind(NamedTuple):
    types: tuple[type, ...]
    text: str


_NAMES = _Kind((str, list), "a text or a list of texts")
_TEXT = _Kind((str,), "a text")
_NUMBER = _Kind((int, float), "a number")
_KEYS = {
    "call": _NAMES,
    "tensor": _NAMES,
    "rule": _TEXT,
    "changes": _NAMES,
    "off_by": _NUMBER,
    "share": _NUMBER,
    "error": _TEXT,
}


class ExcuseError(ConformanceError, ValueError):
    """A malformed table of `problems`. The message names the key, and what would be right."""


def parse(tables: Any) -> tuple[Excuse, ...]:
    """The excuses of an entry. Raises ExcuseError."""
    if not isinstance(tables, list) or not tables:
        raise ExcuseError(f"problems is {tables!r}; write a list of tables: {{ call = …, tensor = …, rule = … }}")
    return tuple(_parse(number, table) for number, table in enumerate(tables, 1))


def _parse(number: int, table: Any) -> Excuse:
    where = f"problem {number}"
    if not isinstance(table, Mapping):
        raise ExcuseError(f"{where} is {table!r}; write a table with the keys {', '.join(_KEYS)}")
    for key, value in table.items():
        if key not in _KEYS:
            raise ExcuseError(f"{where}: unknown key {key!r}; the keys are {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key].types) or isinstance(value, bool) or value in ("", []):
            raise ExcuseError(f"{where}: {key} is {value!r}; write {_KEYS[key].text}")
    rule = table.get("rule", "")
    if rule not in RULES or rule in OF_THE_DECLARATION:
        known = ", ".join(name for name in RULES if name not in OF_THE_DECLARATION)
        raise ExcuseError(f"{where}: rule is {rule!r}; known are {known}")
    needed = {"call"} | ({"tensor"} if rule not in _WHOLE else set())
    needed |= {"changes"} if rule == "values" else {"error"} if rule == "raises" else set()
    allowed = {"rule", "error", *needed} | ({"off_by", "share"} if rule == "values" else set())
    for key in sorted(needed - set(table)):
        raise ExcuseError(f"{where}: {key!r} is missing, which {rule!r} needs")
    for key in sorted(set(table) - allowed):
        raise ExcuseError(f"{where}: {key!r} says nothing about {rule!r}; leave it out")
    calls = _names(table["call"])
    if unknown := [call for call in calls if call not in (*_CALLS, "*") and not is_name(call)]:
        raise ExcuseError(f"{where}: unknown call {unknown[0]!r}; known are {', '.join(_CALLS)}")
    changes = _names(table.get("changes", ()))
    for change in changes:
        kinds = change.split(" → ")
        if len(kinds) != 2 or not set(kinds) <= set(KINDS):
            raise ExcuseError(f"{where}: changes has {change!r}; write 'NaN → 0', with kinds of {', '.join(KINDS)}")
    share = float(table.get("share", 1.0))
    if not 0 < share <= 1:
        raise ExcuseError(f"{where}: share is {share:g}; write a number above 0, up to 1")
    return Excuse(
        calls,
        _names(table.get("tensor", "")),
        rule,
        changes,
        off_by=float(table.get("off_by", 0.0)),
        share=share,
        error=table.get("error", ""),
    )


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
