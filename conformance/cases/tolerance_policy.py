"""The numerics policy: how far a compiled result may be from the reference, and what a case may change about it.

Keys of @case(numerics={...}), all optional:

    exact       True: the result must equal eager's bit for bit (NaN equals NaN). For functions that only move or select
                data
    factor      compiled's error may be this many times eager's error, instead of POLICY's factor or of the project's
                conformance_factor (an ini option). A wider one than POLICY's needs a `reason`; above MEASURED_ABOVE,
                the reason names a measurement: "measured 11 ulp", "measured 12 times"
    excess      tensor → ulp: {"output['exp']": 1}. Its error may be so many ulp more than eager's at that magnitude,
                instead of the factor and the floor. What moved inputs do is no excuse. Above MOST_EXCESS, the reason
                names a measurement
    reference   "eager": compare with eager instead of float64, because the function has no meaning in float64. Needs a
                `reason`
    raises      the name of the exception that eager raises. Compiled must raise it too, when it compiles or when it is
                called, before it writes to an input. An exception of Dynamo or Inductor that wraps it counts as well
    branch      values where the function changes branch: [0.0, 6.0], or by input {"x": [0.0, 6.0]}. They become special
                values
    without     what is not checked → reason. A group of special values (see special_values.py: nan, inf, huge,
                denormals, edges, ties, negative, positive, far, exponents, full_range, outside, wrap), "sizes" (other
                sizes with dynamic shapes), "expanded cotangents" or "permuted cotangents", a kind of other inputs (see
                other_inputs.py: transposed, dynamic, size 0, size 1, refused), the name of an input, or "graphs":
                nothing need be compiled
    fill        tensor → why no error in it can be found: {"output[1]": "it is zeros_like(x)"}. Without it, a tensor is
                refused that is one constant in every call, always empty, or so far from float64 that twice its values,
                two elements exchanged, or an input would pass
    recompiles  how often later calls may compile again (default 0). Needs a `reason`
    reason      why the case differs from the policy, in a sentence
    for         selector → any of these keys, for some cases only: {"cuda bf16": {"factor": 8, "reason": "…"}}

`pytest --audit` finds entries that excuse nothing. A reason that begins with "on a device" is about what the emulation
does not do: only a run on the device can judge it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from conformance.cases import other_inputs, run_values, special_values
from conformance.cases.case import CaseError
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

#: dtype → (factor on eager's error, floor in ulp). docs/numerics.md says how they were found. 16-bit results are
#: computed in float32 and rounded once: at most half an ulp more than eager's error, which is half an ulp or more. In
#: float32 the vectorised functions (Sleef, libdevice) have errors of 1 or 2 ulp, and a sum in another order differs by
#: a few ulp. float64 has no wider reference, so eager's error is not known: only the floor counts, in ulp of the
#: tensor's largest element.
POLICY = {
    "float64": (8.0, 64.0),
    "float32": (4.0, 4.0),
    "float16": (2.0, 1.0),
    "bfloat16": (2.0, 1.0),
}
#: As POLICY, for dtypes that it does not list, such as float8: the same as for 16 bits.
SMALL_DTYPES = (2.0, 1.0)

#: A factor above this needs a reason that names a measurement. The largest factor that the policy itself has is 8.
MEASURED_ABOVE = 8.0
#: So is an `excess` above this, the floor of float32 in POLICY.
MOST_EXCESS = 4.0
_MEASUREMENT = re.compile(r"\d\s*(ulp|times)\b")

#: For cases whose denormals are flushed on cuda: numerics={"for": {"cuda": FLUSHED}}. The option
#: torch._inductor.config.eager_numerics.disable_ftz turns flushing off. The emulation does not flush, so only a run on
#: a device can judge this opt-out (opt_outs.ON_DEVICE).
FLUSHED = {
    "without": {
        "denormals": "on a device, libdevice's functions flush them to 0: Inductor's settings make Triton take them"
    }
}

#: Calls with the values of the first one, whose cotangents have another layout. See numerics/cotangents.py.
COTANGENT_CALLS = ("expanded cotangents", "permuted cotangents")

#: In `without`: no graph of the case needs to reach Inductor.
GRAPHS = "graphs"
#: What `without` may name, besides inputs.
OMISSIBLE = (*special_values.GROUPS, "sizes", *COTANGENT_CALLS, *other_inputs.KINDS, GRAPHS)


class _Kind(NamedTuple):
    types: tuple[type, ...]
    text: str


_KINDS = {
    "exact": _Kind((bool,), "True or False"),
    "factor": _Kind((int, float), "a number of 0 or more"),
    "excess": _Kind((Mapping,), "a dict of tensor → ulp"),
    "reference": _Kind((str,), "text"),
    "raises": _Kind((str,), "text"),
    "branch": _Kind((list, tuple, Mapping), "a list of numbers, or a dict of input → list"),
    "without": _Kind((Mapping,), "a dict of name → reason"),
    "fill": _Kind((Mapping,), "a dict of tensor → reason"),
    "recompiles": _Kind((int,), "a number"),
    "reason": _Kind((str,), "text"),
}

KEYS = (*_KINDS, "for")


class PolicyError(ConformanceError, ValueError):
    """A wrong `numerics` of a case: an unknown key, a wrong value, or a wider tolerance without a reason."""


@dataclass(frozen=True)
class Policy:
    """The numerics policy of one case on one target. Fields: see the module; by default POLICY alone holds.

    `limit`: the `excess` of the tensor that the policy is for, see `for_tensor`; None without one.
    """

    exact: bool = False
    factor: float | None = None
    excess: Mapping[str, float] = field(default_factory=dict)
    reference: str = "float64"
    raises: str = ""
    reason: str = ""
    branch: Any = ()
    without: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, str] = field(default_factory=dict)
    recompiles: int = 0
    limit: float | None = None

    @classmethod
    def from_declaration(
        cls, numerics: Mapping[str, Any], where: str = "numerics", inputs: Iterable[str] = ()
    ) -> Policy:
        """The policy of a case's `numerics`, which must not contain `for`.

        `where`: the beginning of messages. `inputs`: those that `without` and `branch` may name. Raises PolicyError.
        """
        for key, value in numerics.items():
            if key not in _KINDS:
                raise PolicyError(f"{where}: numerics has the unknown key {key!r}; known are {', '.join(KEYS)}")
            if not isinstance(value, _KINDS[key].types) or (isinstance(value, bool) and key != "exact"):
                raise PolicyError(f"{where}: numerics[{key!r}] is {value!r}; it must be {_KINDS[key].text}")
        policy = cls(**numerics)
        policy._refuse_wide(where)
        policy._refuse_unknown_names(where, tuple(inputs))
        return policy

    @classmethod
    def for_case(cls, case: Case, target: str, device: str) -> Policy:
        """The policy of a case on this target. `target`: its name; `device`: its device type."""
        inputs = list(case.inputs)
        return cls.from_declaration(_chosen(case, target, device), case.id, inputs)

    def for_tensor(self, title: str) -> Policy:
        """The policy for a tensor. `title`: its name in messages."""
        return replace(self, limit=float(self.excess[title])) if title in self.excess else self

    @property
    def moves_inputs(self) -> bool:
        """Whether a distance counts as eager's error that the float64 result moves by when the inputs move."""
        return not self.exact and self.limit is None

    def factor_and_floor(self, dtype: torch.dtype) -> tuple[float, float]:
        """(factor on eager's error, floor in ulp) for results of this dtype."""
        if self.limit is not None:
            return 1.0, self.limit
        real = dtype.to_real() if dtype.is_complex else dtype
        factor, floor = POLICY.get(str(real).removeprefix("torch."), SMALL_DTYPES)
        own = run_values.current().factor if self.factor is None else float(self.factor)
        return (factor if own is None else own), floor

    def _refuse_wide(self, where: str) -> None:
        if self.reference not in ("float64", "eager"):
            raise PolicyError(f"{where}: numerics['reference'] is {self.reference!r}; it must be 'float64' or 'eager'")
        if self.factor is not None:
            if not self.factor >= 0:
                raise PolicyError(f"{where}: numerics['factor'] is {self.factor!r}; it must be a number of 0 or more")
            if self.exact:
                raise PolicyError(f"{where}: numerics has both 'exact' and 'factor'; leave one out")
            if is_wide(self.factor) and not self.reason.strip():
                raise PolicyError(
                    f"{where}: numerics['factor'] = {self.factor:g} is wider than the policy; "
                    "say why: {'factor': …, 'reason': '…'}"
                )
            if self.factor > MEASURED_ABOVE and not _MEASUREMENT.search(self.reason):
                raise PolicyError(
                    f"{where}: numerics['factor'] = {self.factor:g} is above {MEASURED_ABOVE:g}, and its reason has no "
                    f"measurement: {self.reason!r}; write what you measured, such as 'measured 11 ulp' or 'measured 12 "
                    "times eager's error'"
                )
        self._refuse_wide_excess(where)
        if self.reference == "eager" and not self.reason.strip():
            raise PolicyError(
                f"{where}: numerics['reference'] = 'eager' needs a 'reason': why float64 has no meaning here"
            )
        if self.recompiles and not self.reason.strip():
            raise PolicyError(
                f"{where}: numerics['recompiles'] = {self.recompiles} needs a 'reason': why it compiles again"
            )

    def _refuse_wide_excess(self, where: str) -> None:
        for tensor, ulp in self.excess.items():
            name = f"{where}: numerics['excess'][{tensor!r}]"
            if isinstance(ulp, bool) or not isinstance(ulp, (int, float)) or not 0 <= ulp < math.inf:
                raise PolicyError(f"{name} is {ulp!r}; it must be a number of ulp, 0 or more")
            if ulp > MOST_EXCESS and not _MEASUREMENT.search(self.reason):
                raise PolicyError(
                    f"{name} = {ulp:g} is above {MOST_EXCESS:g}, and the reason has no measurement: {self.reason!r}; "
                    "write what you measured, such as 'measured 11 ulp'"
                )

    def _refuse_unknown_names(self, where: str, inputs: tuple[str, ...]) -> None:
        for name, reason in self.fill.items():
            if not isinstance(reason, str) or not reason.strip():
                raise PolicyError(
                    f"{where}: numerics['fill'][{name!r}] is {reason!r}; it must be the reason, a sentence"
                )
        for name, reason in self.without.items():
            if name not in OMISSIBLE and name not in inputs:
                known = ", ".join((*OMISSIBLE, *inputs))
                raise PolicyError(f"{where}: numerics['without'] names {name!r}; known are {known}")
            if not isinstance(reason, str) or not reason.strip():
                raise PolicyError(
                    f"{where}: numerics['without'][{name!r}] is {reason!r}; it must be the reason, a sentence"
                )
        by_input = self.branch if isinstance(self.branch, Mapping) else {"": self.branch}
        for name, values in by_input.items():
            if name and name not in inputs:
                raise PolicyError(f"{where}: numerics['branch'] names {name!r}; the inputs are {', '.join(inputs)}")
            numbers = isinstance(values, (list, tuple)) and all(isinstance(v, (int, float)) for v in values)
            if not numbers:
                raise PolicyError(f"{where}: numerics['branch'] is {values!r}; it must be {_KINDS['branch'].text}")


def is_wide(factor: float) -> bool:
    """Whether a factor is wider than the policy for some dtype."""
    return factor > min(factor for factor, _ in POLICY.values())


def validate(cases: Iterable[Case]) -> None:
    """Checks the `numerics` of these cases for all targets, without torch. Raises CaseError for a wrong one."""
    functions = set()
    for case in cases:
        if (case.file, case.name) not in functions:  # all cases of a function share its `numerics`
            functions.add((case.file, case.name))
            try:
                _validate(case)
            except PolicyError as error:
                raise CaseError(str(error)) from error


def _validate(case: Case) -> None:
    declared = dict(case.numerics)
    inputs = list(case.inputs)
    selectors = declared.pop("for", {})
    Policy.from_declaration(declared, case.id, inputs)
    if not isinstance(selectors, Mapping):
        raise PolicyError(f"{case.id}: numerics['for'] is {selectors!r}; it must be a dict of selector → numerics")
    for selector, numerics in selectors.items():
        if not isinstance(numerics, Mapping) or "for" in numerics:
            raise PolicyError(
                f"{case.id}: numerics['for'][{selector!r}] is {numerics!r}; "
                "it must be a dict of numerics, without 'for'"
            )
        Policy.from_declaration(declared | dict(numerics), f"{case.id}: numerics['for'][{selector!r}]", inputs)


def _chosen(case: Case, target: str, device: str) -> dict[str, Any]:
    from conformance.cases.selectors import TargetName, values_for

    declared = dict(case.numerics)
    selectors = declared.pop("for", {})
    return declared | values_for(selectors, case, TargetName(target, device))
