"""Why compiled is slower: the facts of the capture that cost time, in the order in which an engineer looks at them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from conformance.bench.report import Row
from conformance.devices.targets import Target

#: The call overhead explains a loss that is at most this many times the overhead: half of the loss or more.
_CALL_OVERHEAD_FACTOR = 2
#: Bytes are a reason if the code moves this many times the minimum, and moves at least this many bytes.
_BYTES_FACTOR, _MIN_BYTES = 1.5, 4096
#: Of a fact with a line for each kernel, a reason repeats this many lines.
_MAX_LINES = 2
#: Words of a fact that mean: a vectorised loop nest holds scalar code.
_SCALAR = re.compile(r"element by element|scalar|tmpbuf")


def reasons(values: Mapping[str, Any], row: Row, call_overhead: float, target: Target) -> list[str]:
    """Returns one or more reasons. `values`: the facts and their parts, as requirements get them.

    `call_overhead`: microseconds that a call of a compiled function takes longer than a call of eager, measured here.
    It is the first reason if it is most of the loss.
    """
    lost = row.times["compiled"].median - row.times["eager"].median
    found = [_call_reason(call_overhead)] if lost <= _CALL_OVERHEAD_FACTOR * call_overhead else []
    if breaks := values.get("graph_breaks"):
        found.append(f"graph_breaks {breaks}: {row.facts['graph_breaks'].splitlines()[-1].strip()}")
    if fallbacks := values.get("fallbacks"):
        found.append(f"fallbacks {', '.join(dict.fromkeys(fallbacks))}")
    found += _vectorisation_reasons(values, row.facts)
    least = 2 if row.gradients else 1
    if (kernels := values.get("kernels", 0)) > least:
        unfused = f": unfused {_first_lines(row.facts['unfused'])}" if values.get("unfused") else ""
        found.append(f"{kernels} kernels instead of {least}{unfused}")
    if values.get("bytes", 1.0) >= _BYTES_FACTOR and values["bytes.read"] + values["bytes.written"] >= _MIN_BYTES:
        found.append(f"bytes {_first_lines(row.facts['bytes'])}")
    if target.threads > 1 and "serial" in row.facts.get("kernels", ""):
        found.append(f"serial on {target.threads} threads: {_first_lines(row.facts['kernels'])}")
    if found:
        return found
    if values.get("extern") and not kernels:
        extern = ", ".join(dict.fromkeys(values["extern"]))
        return [f"extern {extern}: Inductor generates no kernel; {_call_reason(call_overhead)}"]
    return [f"no fact explains it; {_call_reason(call_overhead)}"]


def _call_reason(call_overhead: float) -> str:
    return f"calling a compiled function costs {call_overhead:.1f} µs more than eager here"


def _vectorisation_reasons(values: Mapping[str, Any], lines: Mapping[str, str]) -> list[str]:
    """Returns the fact if loops are not vectorised, or only in part."""
    text = lines.get("vectorised", "")
    slow = values.get("vectorised") in ("no", "partly") or (text.startswith("yes") and _SCALAR.search(text))
    return [f"vectorised {_first_lines(text)}"] if slow else []


def _first_lines(text: str) -> str:
    """Returns the first lines of a fact in one line."""
    lines = [line.strip() for line in text.splitlines()]
    shown = lines[: 1 + _MAX_LINES]
    more = f"; and {len(lines) - len(shown)} more" if len(lines) > len(shown) else ""
    return (f"{shown[0]}: {'; '.join(shown[1:])}" if len(shown) > 1 else shown[0]) + more
