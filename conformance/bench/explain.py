"""Why compiled loses: the facts of the capture that cost time, in the order in which one would look at them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from conformance.bench.report import Row
from conformance.devices.targets import Target

#: Calling explains a loss that is at most so many times what calling costs for a single element: half of it then.
_ENOUGH = 2
#: So many times the bytes that have to be moved are worth a word, where they are so many.
_MORE, _FEW = 1.5, 4096
#: Of a fact that has a line for each kernel, so many are repeated.
_LINES = 2
#: Words of a fact by which a vectorised loop nest is known to hold scalar code.
_SCALAR = re.compile(r"element by element|scalar|tmpbuf")


def reasons(values: Mapping[str, Any], row: Row, calling: float, target: Target) -> list[str]:
    """At least one. `values`: the facts, and their parts, as a requirement sees them.

    `calling`: microseconds by which calling a compiled function costs more than calling eager's, measured here; it
    comes first where that is most of the loss.
    """
    lost = row.times["compiled"].median - row.times["eager"].median
    found = [_calling(calling)] if lost <= _ENOUGH * calling else []
    if breaks := values.get("graph_breaks"):
        found.append(f"graph_breaks {breaks}: {_last(row.facts['graph_breaks'])}")
    if fallbacks := values.get("fallbacks"):
        found.append(f"fallbacks {', '.join(dict.fromkeys(fallbacks))}")
    found += _loops(values, row.facts)
    least = 2 if row.gradients else 1
    if (kernels := values.get("kernels", 0)) > least:
        apart = f": unfused {_flat(row.facts['unfused'])}" if values.get("unfused") else ""
        found.append(f"{kernels} kernels, where {least} would be the least{apart}")
    if values.get("bytes", 1.0) >= _MORE and values["bytes.read"] + values["bytes.written"] >= _FEW:
        found.append(f"bytes {_flat(row.facts['bytes'])}")
    if target.threads > 1 and "serial" in row.facts.get("kernels", ""):
        found.append(f"serial on {target.threads} threads: {_flat(row.facts['kernels'])}")
    if found:
        return found
    if values.get("extern") and not kernels:
        return [f"extern {', '.join(dict.fromkeys(values['extern']))}: no kernel of Inductor's, {_calling(calling)}"]
    return [f"no fact explains it; {_calling(calling)}"]


def _calling(calling: float) -> str:
    return f"calling a compiled function costs {calling:.1f} µs more than eager here"


def _loops(values: Mapping[str, Any], lines: Mapping[str, str]) -> list[str]:
    """What is not vectorised, or only in part."""
    text = lines.get("vectorised", "")
    slow = values.get("vectorised") in ("no", "partly") or (text.startswith("yes") and _SCALAR.search(text))
    return [f"vectorised {_flat(text)}"] if slow else []


def _flat(text: str) -> str:
    """The first lines of a fact on one line."""
    lines = [line.strip() for line in text.splitlines()]
    shown = lines[: 1 + _LINES]
    more = f"; and {len(lines) - len(shown)} more" if len(lines) > len(shown) else ""
    return (f"{shown[0]}: {'; '.join(shown[1:])}" if len(shown) > 1 else shown[0]) + more


def _last(text: str) -> str:
    return text.splitlines()[-1].strip()
