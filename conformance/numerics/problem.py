"""Problems: what a numerics check found wrong, as data. A known failure names the problems that it excuses.

Nothing here imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from conformance.cases.later_calls import OTHER_SIZES, SECOND
from conformance.cases.special_values import GROUPS

#: Rule → what it says of compiled.
RULES = {
    "values": "elements of a tensor are too far from float64, or from eager where they must be equal",
    "constant": "a result that is no tensor is another one",
    "structure": "the result has other containers or types",
    "device": "a tensor is on another device",
    "dtype": "a tensor has another dtype",
    "shape": "a tensor has another shape",
    "strides": "a tensor has other strides",
    "storage offset": "a tensor begins elsewhere in its storage",
    "requires_grad": "a tensor requires a gradient where eager's does not, or the reverse",
    "aliasing": "tensors share storage where eager's do not, or the reverse",
    "outside write": "the call wrote to the storage of an input outside of the input's elements",
    "gradient": "a gradient is missing, or there is one where eager has none",
    "raises": "compiled raises what eager does not, or the reverse",
    "recompiles": "the call compiled again",
    "random numbers": "what compiled draws by default breaks a promise of random numbers",
    "reference": "there is no float64 reference: the case's declaration is wrong",
    "nothing compared": "no error could be found: eager's tensor is the same constant in every call, always empty, or "
    "so far from float64 that a plain mistake would pass",
}
#: Rules about the case's declaration. A known failure cannot excuse them.
OF_THE_DECLARATION = ("reference", "nothing compared")
#: Calls of the check with other values than special ones, in order. The names of groups of special values follow.
ORDINARY_CALLS = ("first", SECOND)
SIZE_CALLS = tuple(OTHER_SIZES)
#: The call with what an eager call left in a module: see cases/kept_state.py.
NEXT_CALL = "next"
#: The kinds of elements of a tensor, in the order in which messages list them.
KINDS = ("NaN", "inf", "-inf", "0", "-0", "number")


@dataclass(frozen=True)
class WrongValues:
    """Which elements of a tensor are wrong, and how.

    `changes`: "eager's kind of element → compiled's" → number of elements; see KINDS.
    `share`: wrong elements as a share of all. `off_by`: the largest |compiled - eager| of the wrong elements
    that are finite in both; 0.0 if there is none.
    """

    changes: Mapping[str, int]
    share: float
    off_by: float

    def __str__(self) -> str:
        changes = ", ".join(f"{count} × {change}" for change, count in self.changes.items())
        return changes + (f", off by {self.off_by:.3g}" if self.off_by else "")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in one call.

    `tensor`: "output[1]", "gradient of x", "x after the call"; for aliasing, both names; "" for the whole call.
    `rule`: one of RULES. `text`: for messages, of one or more lines. `call`: "first", "second", NEXT_CALL, one of
    SIZE_CALLS or COTANGENT_CALLS of cases/tolerance_policy.py, or a group of special values. `wrong_values`: for the
    rule "values".
    `factor`: for this rule, the least factor on eager's error with which the values would pass; 0 if none helps.
    `error`: for this rule, the error of the worst element in ulp.
    """

    tensor: str
    rule: str
    text: str
    call: str = ""
    wrong_values: WrongValues | None = None
    factor: float = 0.0
    error: float = 0.0

    @property
    def name(self) -> str:
        """Call, tensor and rule: `nan: output[1]: values (3 × NaN → 0)`."""
        extent = f" ({self.wrong_values})" if self.wrong_values else ""
        return ": ".join(part for part in (self.call, self.tensor, self.rule) if part) + extent

    def to_json(self) -> dict[str, Any]:
        """As Problem.from_json takes it."""
        values = self.wrong_values
        return {
            "tensor": self.tensor,
            "rule": self.rule,
            "text": self.text,
            "call": self.call,
            "wrong_values": values
            and {"changes": dict(values.changes), "share": values.share, "off_by": values.off_by},
            "factor": self.factor,
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Problem:
        values = data["wrong_values"]
        return cls(**dict(data) | {"wrong_values": values and WrongValues(**values)})


@dataclass(frozen=True)
class Excuse:
    """The problems of an item that a known failure excuses: a table below `problems` in known_failures/*.toml.

    `calls`, `tensors`: names, with `*` for any text. `rule`: one of RULES. For "values": `changes`, all that may occur;
    `off_by`, the largest |compiled - eager|; `share`, at most this share of a tensor's elements. `error`: a part of
    the text, with `*` too.
    """

    calls: tuple[str, ...]
    tensors: tuple[str, ...]
    rule: str
    changes: tuple[str, ...] = ()
    off_by: float = 0.0
    share: float = 1.0
    error: str = ""

    def matches(self, problem: Problem, *, other_values: bool = False) -> bool:
        """`other_values`: the calls have other random values than those from which the excuse was written. Then the
        extent does not count. Nor does the call, but only an excuse for an ordinary call excuses an ordinary call.
        """
        if problem.rule != self.rule or not _is_named(problem.tensor, self.tensors):
            return False
        if not re.search(".*".join(map(re.escape, self.error.split("*"))), problem.text, re.DOTALL):
            return False
        if other_values:
            return problem.call in (*self.calls, *GROUPS) or not set(self.calls) <= set(GROUPS)
        if not _is_named(problem.call, self.calls):
            return False
        values = problem.wrong_values
        if values is None:
            return True
        return set(values.changes) <= set(self.changes) and values.off_by <= self.off_by and values.share <= self.share


def _is_named(name: str, names: Sequence[str]) -> bool:
    """Whether one of the names is this one, or is it with `*` for any text."""
    return name in names or any("*" in each and fnmatchcase(name, each) for each in names)


def unexcused(problems: Iterable[Problem], excuses: Sequence[Excuse], *, other_values: bool = False) -> list[Problem]:
    """The problems of an item that no excuse of its known failures matches. `other_values`: see Excuse.matches."""
    return [
        problem for problem in problems if not any(each.matches(problem, other_values=other_values) for each in excuses)
    ]
