"""What a case may say of its numerics, and what holds where it says nothing.

@case(numerics={...}) with these keys, each optional:

    exact       True: equal to eager bit for bit (NaN equal to itself), for what only moves or selects data
    factor      instead of POLICY's factor on eager's error; a wider one needs a `reason`
    reference   "eager": the function has no meaning in float64; needs a `reason`
    raises      name of the exception that eager raises: compiled must raise it too, compiling or called, before it
                writes to an input; of that type is what comes out, and what Dynamo or Inductor wrapped in it
    branch      values where the function changes branch, [0.0, 6.0], or by input {"x": [0.0, 6.0]}
    without     what is left out → the reason: groups of special values (special.py: nan, inf, huge, denormals, edges,
                ties, wrap), "sizes" (further sizes under dynamic shapes), or the name of an input that stays ordinary
    recompiles  how often further calls may compile again (0); needs a `reason`
    reason      why it is not POLICY
    for         selector → any of these keys, as in `require`: {"cuda bf16": {"factor": 8, "reason": "…"}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from conformance.cases import special_values
from conformance.cases.case import CaseError
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

#: dtype → (factor on eager's error, floor in ulp); docs/numerics.md says how they were found. Results of 16 bits are
#: computed in float32 and rounded once: at most half an ulp more than eager, whose own rounding is half an ulp or more.
#: In float32 the vectorised functions (Sleef, libdevice) are good to 1 or 2 ulp, and a sum in another order differs by
#: a few. Float64 has no wider reference: eager's error cannot be measured, so all is floor, in ulp of the tensor's
#: largest element.
POLICY = {
    "float64": (8.0, 64.0),
    "float32": (4.0, 4.0),
    "float16": (2.0, 1.0),
    "bfloat16": (2.0, 1.0),
}
#: float8 and other small types: as those of 16 bits.
SMALL = (2.0, 1.0)

#: What several cases say of cuda: {"for": {"cuda": FLUSHED}}. torch._inductor.config.eager_numerics.disable_ftz turns
#: the setting off.
FLUSHED = {
    "without": {
        "denormals": "they count as 0 in libdevice's functions: Triton takes those that flush, a setting of Inductor"
    }
}

#: What `without` may name beside inputs.
OMISSIBLE = (*special_values.GROUPS, "sizes")

_KINDS = {
    "exact": bool,
    "factor": (int, float),
    "reference": str,
    "raises": str,
    "branch": (list, tuple, Mapping),
    "without": Mapping,
    "recompiles": int,
    "reason": str,
}


class PolicyError(ConformanceError, ValueError):
    """A case's `numerics` that is malformed, or wider than the policy without a reason."""


@dataclass(frozen=True)
class Policy:
    """What one case asks of its numerics on one target; by default nothing but POLICY. Fields: see above."""

    exact: bool = False
    factor: float | None = None
    reference: str = "float64"
    raises: str = ""
    reason: str = ""
    branch: Any = ()
    without: Mapping[str, str] = field(default_factory=dict)
    recompiles: int = 0

    @classmethod
    def from_declaration(
        cls, numerics: Mapping[str, Any], where: str = "numerics", inputs: Iterable[str] = ()
    ) -> Policy:
        """Reads a case's `numerics`, without `for`. `inputs`: names that `without` and `branch` may name.

        Raises PolicyError for what is unknown, malformed or wider without a reason.
        """
        for key, value in numerics.items():
            if key not in _KINDS:
                raise PolicyError(f"{where}: numerics has the key {key!r}; known are {', '.join([*_KINDS, 'for'])}")
            if not isinstance(value, _KINDS[key]) or (isinstance(value, bool) and key != "exact"):
                raise PolicyError(f"{where}: numerics[{key!r}] is {_kind(key)}, not {value!r}")
        policy = cls(**numerics)
        policy._refuse_wide(where)
        policy._refuse_unknown_names(where, tuple(inputs))
        return policy

    @classmethod
    def for_case(cls, case: Case, target: str, device: str) -> Policy:
        """What the case says of this target. `device`: a device type."""
        inputs = [name for name in case.arguments if name in case.choices]
        return cls.from_declaration(_chosen(case, target, device), case.id, inputs)

    def factor_and_floor(self, dtype: torch.dtype) -> tuple[float, float]:
        """Factor and floor."""
        real = dtype.to_real() if dtype.is_complex else dtype
        factor, floor = POLICY.get(str(real).removeprefix("torch."), SMALL)
        return (factor if self.factor is None else float(self.factor)), floor

    def _refuse_wide(self, where: str) -> None:
        if self.reference not in ("float64", "eager"):
            raise PolicyError(f"{where}: numerics['reference'] is 'float64' or 'eager', not {self.reference!r}")
        if self.factor is not None:
            if not self.factor >= 0:
                raise PolicyError(f"{where}: numerics['factor'] is a number of 0 or more, not {self.factor!r}")
            if self.exact:
                raise PolicyError(f"{where}: numerics has both exact and a factor; what is exact has no factor")
            if self.factor > min(factor for factor, _ in POLICY.values()) and not self.reason.strip():
                raise PolicyError(
                    f"{where}: numerics['factor'] = {self.factor:g} is wider than the policy; "
                    "say why: {'factor': …, 'reason': '…'}"
                )
        if self.reference == "eager" and not self.reason.strip():
            raise PolicyError(f"{where}: numerics['reference'] = 'eager' gives up float64; say why in 'reason'")
        if self.recompiles and not self.reason.strip():
            raise PolicyError(f"{where}: numerics['recompiles'] = {self.recompiles}; say why in 'reason'")

    def _refuse_unknown_names(self, where: str, inputs: tuple[str, ...]) -> None:
        for name, reason in self.without.items():
            if name not in OMISSIBLE and name not in inputs:
                known = ", ".join((*OMISSIBLE, *inputs))
                raise PolicyError(f"{where}: numerics['without'] names {name!r}; known are {known}")
            if not isinstance(reason, str) or not reason.strip():
                raise PolicyError(f"{where}: numerics['without'][{name!r}] is {reason!r}; it is the reason, a sentence")
        by_input = self.branch if isinstance(self.branch, Mapping) else {"": self.branch}
        for name, values in by_input.items():
            if name and name not in inputs:
                raise PolicyError(f"{where}: numerics['branch'] names {name!r}; the inputs are {', '.join(inputs)}")
            numbers = isinstance(values, (list, tuple)) and all(isinstance(v, (int, float)) for v in values)
            if not numbers:
                raise PolicyError(f"{where}: numerics['branch'] is a list of numbers, or input → list, not {values!r}")


def validate(cases: Iterable[Case]) -> None:
    """Refuses `numerics` that are malformed, whatever the target; needs no torch. Raises CaseError."""
    seen = set()
    for case in cases:
        if (case.file, case.name) not in seen:  # all cases of a function say the same
            seen.add((case.file, case.name))
            try:
                _validate(case)
            except PolicyError as error:
                raise CaseError(str(error)) from error


def _validate(case: Case) -> None:
    declared = dict(case.numerics)
    inputs = list(case.choices)
    selectors = declared.pop("for", {})
    Policy.from_declaration(declared, case.id, inputs)
    if not isinstance(selectors, Mapping):
        raise PolicyError(f"{case.id}: numerics['for'] is a dict of selector → numerics, not {selectors!r}")
    for selector, numerics in selectors.items():
        if not isinstance(numerics, Mapping) or "for" in numerics:
            raise PolicyError(f"{case.id}: numerics['for'][{selector!r}] is a dict of numerics, not {numerics!r}")
        Policy.from_declaration(declared | dict(numerics), f"{case.id}: numerics['for'][{selector!r}]", inputs)


def _chosen(case: Case, target: str, device: str) -> dict[str, Any]:
    from conformance.cases.selectors import values_for

    declared = dict(case.numerics)
    selectors = declared.pop("for", {})
    return declared | values_for(selectors, case, SimpleNamespace(name=target, device=device))


def _kind(key: str) -> str:
    said = {"factor": "a number of 0 or more", "branch": "a list of numbers, or input → list", "recompiles": "a number"}
    return said.get(key) or {bool: "a bool", str: "a str", Mapping: "a dict of name → reason"}[_KINDS[key]]
