"""Splits a fact into phrases that are the same in every case, without sizes, counts and indices.

"vectorised  yes: 8 lanes along x0, tail masked" has the phrases "yes", "N lanes along N" and "tail masked".
"""

from __future__ import annotations

import re
from collections import Counter

#: A comma outside of parentheses.
_COMMA = re.compile(r", (?![^()]*\))")


def fact_phrases(name: str, text: str) -> Counter[str]:
    """Returns the phrases of a fact, each with how often the text says it. `text`: the value of the fact `name`."""
    lines = [line.strip() for line in text.splitlines()]
    if name == "kernels":
        kinds = Counter(kind for line in lines for kind in _kernel_kinds(line))
        return kinds + Counter({f"operator {each}": 1 for line in lines for each in kernel_operators(line)})
    if name == "vectorised":
        return Counter(phrase for line in lines for phrase in _nest_phrases(line))
    if name == "patterns":
        return _names(re.sub(r" \d+ times", "", text))
    if name in ("extern", "fallbacks"):
        return _names(re.sub(r"\b(?:forward|backward) ", "", text.replace(";", ",")))
    if name == "unfused":
        return Counter(without_numbers(line.partition(": ")[2]) for line in lines if ": " in line)
    return Counter(without_numbers(line) for line in lines if line)


def without_numbers(text: str) -> str:
    """Returns the text with N for each number, size and numbered name, and without index expressions."""
    text = re.sub(r"\b(load|store|index_expr|value_expr) index .*?(?= is not| element by element|$)", r"\1 index", text)
    text = re.sub(r"\(?-?\b[a-z]?\d+\b\)?(?:[*x.]\(?[a-z]?\d+\)?)*", "N", text)
    return re.sub(r"N(?:[ ,]*N)+", "N", text).strip()


def _kernel_kinds(line: str) -> list[str]:
    """Returns "pointwise" and "parallel" of "1: flip (pointwise 672x224, parallel)"."""
    inside = re.search(r"\(((?:[^()]|\([^()]*\))*)\)$", line)
    words = re.split(r" \+ |, ", inside[1]) if inside else []
    return [kind for word in words if (kind := re.sub(r"\s*[\d\[].*$", "", word).strip())]


def kernel_operators(line: str) -> list[str]:
    """Returns ["neg", "sum"] of "1 backward: neg, sum (reduction 2x[8192], first half of a split)"."""
    named = re.match(r"\d+(?: \w+)*: (.*) \(", line.strip())
    return named[1].partition(" (")[0].split(", ") if named else []


def _nest_phrases(line: str) -> list[str]:
    nest = re.sub(r"^(?:\d+ )?(?:(?:forward|backward)[: ] ?)?(?:nest \d+: )?", "", line)
    head, _, rest = nest.partition(":") if re.match(r"(?:yes|no|partly)\b", nest) else ("", "", nest)
    return [phrase for part in [head, *_COMMA.split(rest)] if (phrase := without_numbers(part))]


def _names(text: str) -> Counter[str]:
    names = (without_numbers(name) for line in text.splitlines() for name in _COMMA.split(line))
    return Counter(name for name in names if name not in ("", "none"))
