"""Opt-outs: what a case's `numerics` leaves out of the check, or allows beyond the policy.

`pytest --audit` judges them.

An opt-out is one entry of `without` or of `fill`, a `factor` wider than the policy, `reference: "eager"`, or
`recompiles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases.selectors import TargetName, applying
from conformance.cases.tolerance_policy import is_wide

if TYPE_CHECKING:
    from conformance.cases.case import Case

#: A reason that begins so is about the device itself: the emulation on the CPU cannot judge the opt-out.
ON_DEVICE = "on a device"
#: What a reason says if a library may not return without the opt-out: then the audit does not try it.
NEVER_ENDS = "never ends"
#: What a reason says if an operator is not deterministic, or if only the values of other seeds than 0 show the
#: difference: then one run does not show that an opt-out is idle.
VARIES = ("differs between runs", "differs between seeds")


@dataclass(frozen=True)
class OptOut:
    """One opt-out of a case on a target.

    `key`: "without", "fill", "factor", "reference" or "recompiles". `name`: what an entry of the first two names; ""
    for the others. `selector`: the one of "for" that declares it; "" outside of "for".
    """

    key: str
    name: str
    selector: str
    reason: str

    @property
    def declaration(self) -> str:
        """As one would write it in Python: `numerics["for"]["gpu"]["without"]["huge"]`."""
        path = (*(("for", self.selector) if self.selector else ()), self.key, *((self.name,) if self.name else ()))
        return "numerics" + "".join(f'["{part}"]' for part in path)

    @property
    def needs_device(self) -> bool:
        """Whether only a run on the device can judge it."""
        return self.reason.startswith(ON_DEVICE)

    @property
    def may_never_end(self) -> bool:
        """Whether the case might never end without it."""
        return NEVER_ENDS in self.reason

    @property
    def varies(self) -> bool:
        """Whether a result without it may be right in one run and wrong in another."""
        return any(words in self.reason for words in VARIES)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def opt_outs(case: Case, target: str, device: str) -> list[OptOut]:
    """The opt-outs that hold for a case on a target. `target`: its name; `device`: its device type."""
    declared = {"": {key: value for key, value in case.numerics.items() if key != "for"}}
    selectors = case.numerics.get("for", {})
    declared |= {selector: selectors[selector] for selector in applying(selectors, case, TargetName(target, device))}
    values: dict[str, tuple[str, Any]] = {}  # as in values_for: a later selector replaces the whole value of a key
    for selector, numerics in declared.items():
        values |= {key: (selector, value) for key, value in numerics.items()}
    reason = str(values.get("reason", ("", ""))[1])
    return [each for key, (selector, value) in values.items() for each in _of_key(key, selector, value, reason)]


def _of_key(key: str, selector: str, value: Any, reason: str) -> Iterator[OptOut]:
    if key in ("without", "fill"):
        for name, why in value.items():
            yield OptOut(key, name, selector, why)
    opts_out = {"factor": is_wide, "reference": lambda name: name == "eager", "recompiles": bool}
    if key in opts_out and opts_out[key](value):
        yield OptOut(key, "", selector, reason)
