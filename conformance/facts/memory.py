"""Memory that the generated code holds."""

from __future__ import annotations

from typing import Any

from conformance.facts.model import Fact, ObservedCapture

#: How many buffers the lines show.
_SHOWN = 4
_NOTHING: dict[str, Any] = {"peak": 0, "at": "", "alive": [], "formula": ""}


def memory(observed: ObservedCapture) -> Fact:
    """The most bytes that the code holds at a time, beside its inputs. `.forward`, `.backward`: of those alone.

    `.left`: what is alive when the forward returns: its outputs, and with gradients what the backward needs. `.saved`:
    of these, what only the backward needs. The lines: the wrapper's call, what is alive then, and with dynamic sizes
    the formula. `.peak`: as the whole.
    """
    modules = observed.capture.modules
    found = [(module.kind, module.observed["memory"]) for module in modules]
    parts = {
        kind: max((each["peak"] for of, each in found if of == kind), default=0) for kind in ("forward", "backward")
    }
    parts |= {name: sum(each[name] for kind, each in found if kind != "backward") for name in ("left", "saved")}
    kind, most = max(found, key=lambda each: each[1]["peak"], default=("", _NOTHING))
    where = kind if kind in ("forward", "backward") else ""
    call = " ".join(filter(None, (f"when it calls {most['at']}" if most["at"] else "", where and f"in the {where}")))
    first = f"{most['peak']} bytes{f', {call}' if call else ''}; {parts['left']} when it returns"
    first += f", {parts['saved']} of them for the backward" if parts["saved"] else ""
    lines = [first, *most["alive"][:_SHOWN]]
    if len(most["alive"]) > _SHOWN:
        lines.append(f"and {len(most['alive']) - _SHOWN} more")
    if most["formula"]:
        lines.append(f"= {most['formula']} bytes")
    return Fact(most["peak"], tuple(lines), parts | {"peak": most["peak"]}, instead=lambda _: "; ".join(lines))
