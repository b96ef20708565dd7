"""Memory that the generated code holds."""

from __future__ import annotations

from conformance.facts.model import Fact, ObservedCapture


def memory(observed: ObservedCapture) -> Fact:
    """The most bytes that the code holds at a time, beside its inputs. `.forward`, `.backward`: of those alone.

    `.left`: what is alive when the forward returns: its outputs, and with gradients what the backward needs. `instead`:
    what the wrapper calls while the most is alive.
    """
    modules = observed.capture.modules
    found = [(module.kind, module.observed["memory"]) for module in modules]
    parts = {
        kind: max((each["peak"] for of, each in found if of == kind), default=0) for kind in ("forward", "backward")
    }
    left = sum(each["left"] for kind, each in found if kind != "backward")
    peak = max((each["peak"] for _, each in found), default=0)
    at = next((each["at"] for _, each in found if each["peak"] == peak), "")
    line = f"{peak} bytes{f', when it calls {at}' if at else ''}; {left} when it returns"
    return Fact(peak, (line,), parts | {"peak": peak, "left": left}, instead=lambda _: line)
