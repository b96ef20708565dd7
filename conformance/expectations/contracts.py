"""Contracts: what the author of a library demands of the code that torch.compile generates for a function of theirs.

A contract is a mapping of fact → wanted value, as a selector of `require=` has it. This module makes it from words that
need no knowledge of the facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance.cases.wanted_matches import WantedMatches
from conformance.errors import ConformanceError

_BOUND = re.compile(r"\s*(<=|>=|<|>)\s*\d+\s*")
_OPERATOR = re.compile(r"[A-Za-z_]\w*(\.\w+){0,2}")


class ContractError(ConformanceError, ValueError):
    """A contract that is declared wrongly. The message says what would be right."""


def wanted_facts_of(
    *,
    contains: Iterable[str] | Mapping[str, int | str] | str = (),
    lacks: Iterable[str] | str = (),
    kernels: int | str | None = None,
    bytes_at_most: int | None = None,
    fallbacks: Iterable[str] | int | None = None,
    layout_changes: int | str | None = None,
    graph_breaks: int | str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fact → wanted value. The arguments are those of harness.contracts.contract. Raises ContractError."""
    wanted: dict[str, Any] = {}
    counts = contains if isinstance(contains, Mapping) else dict.fromkeys(_names("contains", contains), ">=1")
    for name, count in counts.items():
        wanted[f"operators.{_operator('contains', name)}"] = _count(f"contains[{name!r}]", count)
    for name in _names("lacks", lacks):
        fact = f"operators.{_operator('lacks', name)}"
        if fact in wanted:
            raise ContractError(f"contract: contains and lacks both name {name!r}; leave it out of one of them")
        wanted[fact] = 0
    for keyword, fact, count in (
        ("kernels", "kernels", kernels),
        ("layout_changes", "layout_changes", layout_changes),
        ("graph_breaks", "graph_breaks", graph_breaks),
    ):
        if count is not None:
            wanted[fact] = _count(keyword, count)
    if bytes_at_most is not None:
        if isinstance(bytes_at_most, bool) or not isinstance(bytes_at_most, int) or bytes_at_most < 0:
            raise ContractError(f"contract: bytes_at_most is {bytes_at_most!r}; give a number of bytes, such as 4096")
        wanted["bytes.moved"] = f"<={bytes_at_most}"
    if fallbacks is not None:
        wanted["fallbacks"] = _fallbacks(fallbacks)
    for fact, value in (facts or {}).items():
        if fact in wanted:
            raise ContractError(f"contract: {fact!r} of facts= is what another keyword says already; leave one out")
        wanted[fact] = value
    return wanted


def wanted_matches_of(pattern: Any, matches: Any, inputs: Any, name: str) -> dict[str, Any]:
    """The same for a pattern; empty without one. Raises ContractError."""
    if pattern is None:
        if inputs or name or matches != 1:
            raise ContractError("contract: matches=, inputs= and name= belong to pattern=, which is missing")
        return {}
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, Sequence):
        raise ContractError(f"contract: inputs is {inputs!r}; give a list or tuple of example inputs of the pattern")
    if not name:
        own = pattern if isinstance(pattern, str) else getattr(pattern, "__name__", "")
        name = own or getattr(pattern, "pass_name", "") or type(pattern).__name__
        if name == "<lambda>":
            raise ContractError("contract: the pattern is a lambda; say how messages name it, as name='split'")
    return {f"matches.{name}": WantedMatches(name, pattern, _count("matches", matches), tuple(inputs))}


def _names(keyword: str, names: Any) -> list[str]:
    """The names in a list; of one name alone, that one."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise ContractError(f"contract: {keyword} is {names!r}; give names of operators, such as ['aten.mm']")
    return list(names)


def _operator(keyword: str, name: Any) -> str:
    if not isinstance(name, str) or not _OPERATOR.fullmatch(name):
        hint = "the name as text, such as 'aten.mm', 'aten.add.Tensor' or 'mylib.rms_norm'"
        raise ContractError(f"contract: {keyword} names {name!r}; give {hint}")
    return name.removesuffix(".default")


def _count(keyword: str, count: Any) -> int | str:
    is_number = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    if not is_number and not (isinstance(count, str) and _BOUND.fullmatch(count)):
        raise ContractError(f"contract: {keyword} is {count!r}; give a number, or a bound such as '<=2' or '>=1'")
    return count


def _fallbacks(fallbacks: Any) -> list[str]:
    if isinstance(fallbacks, int) and not isinstance(fallbacks, bool) and fallbacks == 0:
        return []
    if isinstance(fallbacks, (list, tuple)) and all(isinstance(each, str) for each in fallbacks):
        return list(fallbacks)
    raise ContractError(
        f"contract: fallbacks is {fallbacks!r}; give 0, or the list of all that are allowed, such as ['aten.sort']"
    )
