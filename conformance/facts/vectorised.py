"""Whether Inductor vectorised the loops of C++ kernels: how, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.facts.kernels import label
from conformance.facts.model import Fact, ObservedCapture, listed
from conformance.words import NOT_SAID

_TAILS = ("none", "masked", "scalar")  # from good to bad


def vectorised(observed: ObservedCapture) -> Fact | None:
    """One of yes, no, partly, none (no loop) and NOT_SAID.

    The lines have the reasons, one for each loop nest if they differ.
    """
    if not observed.on_cpu:
        return None
    if languages := {kernel["language"] for kernel in observed.kernels} - {"cpp", "triton"}:
        return Fact(NOT_SAID, (f"{NOT_SAID}: kernels of {', '.join(sorted(languages))}",), absent=NOT_SAID)
    labelled = []  # (label, nest)
    for number, kernel in enumerate(observed.kernels, 1):
        nests = [(position, nest) for position, nest in enumerate(kernel.get("nests", []), 1) if nest["vectorised"]]
        for position, nest in nests:
            where = label(kernel, number) + (f" nest {position}" if len(nests) > 1 else "")
            labelled.append((where, nest))
    if not labelled:
        return Fact("none", ("none: no loop",), _parts([]))
    words = list(dict.fromkeys(nest["vectorised"] for _, nest in labelled))
    texts = list(dict.fromkeys(_text(nest) for _, nest in labelled))
    word = words[0] if len(words) == 1 else "partly"
    lines = texts if len(texts) == 1 else [word, *(f"{where}: {_text(nest)}" for where, nest in labelled)]
    parts = _parts([nest for _, nest in labelled if nest["vectorised"] == "yes"])
    reasons = list(dict.fromkeys(nest["reason"] for _, nest in labelled if nest["reason"]))
    instead = listed(reasons, most=2)
    return Fact(word, tuple(lines), parts, instead=lambda _: instead)


def _text(nest: Mapping[str, Any]) -> str:
    """`yes: 16 lanes along x1, tail masked`, or `no: ` with the reason."""
    if nest["vectorised"] != "yes":
        return f"{nest['vectorised']}: {nest['reason']}"
    loops, width = ", ".join(nest["loops"]), nest["width"]
    tile = f"2-D tile of {width} by {width} lanes, transposed in {loops}" if nest["transposed"] else ""
    parts = [tile or f"{width} lanes along {loops}"]
    if nest["tail"] != "none":
        parts.append(f"tail {nest['tail']}")
    if nest["reason"]:
        parts.append(nest["reason"])
    return f"yes: {', '.join(parts)}"


def _parts(nests: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Of all vectorised nests: the least width, the worst tail, the number of scalar operations and of tiles."""
    return {
        "width": min((nest["width"] for nest in nests), default=1),
        "tail": _TAILS[max((_TAILS.index(nest["tail"]) for nest in nests), default=0)],
        "scalar": sum(nest["scalar"] for nest in nests),
        "transposed": sum(nest["transposed"] for nest in nests),
    }
