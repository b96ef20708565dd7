"""An observation: what one torch generates for one case on one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from conformance.errors import ConformanceError
from conformance.facts.compile_work import is_changed

#: What can be asked: the code, one fact, whether numerics are right, whether the case's requirements are met.
KINDS = ("code", "fact", "numerics", "requirement")

#: The fact that is counted only where it is asked for.
WORK = "compile_work"


class QuestionError(ConformanceError, ValueError):
    """A question that the case has no answer to."""


@dataclass(frozen=True)
class Observation:
    """`misfit`: why there is nothing to observe, such as a failing import; "" if there is.

    `error`: what compiling raised; "" if it compiled. `code`: the normalised code. `facts`: name → line.
    `numerics`: "right", "wrong", or "" if they were not checked; `problem`: what is wrong, or why that is.
    `unmet`: lines of requirements that are not met. `culprit`: the title of the exchanged function that raised, if one
    did and it is known. `placeholders`: what stood for names that the binaries lack. `seconds`: of the capture, without
    starting the process.
    """

    misfit: str = ""
    error: str = ""
    code: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    numerics: str = ""
    problem: str = ""
    unmet: tuple[str, ...] = ()
    culprit: str = ""
    placeholders: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Observation:
        return cls(**{**data, "unmet": tuple(data["unmet"]), "placeholders": tuple(data.get("placeholders", ()))})


@dataclass(frozen=True)
class Question:
    """What is asked of a case. `kind`: one of KINDS. `fact`: its name, if the question is for a fact."""

    kind: str = "code"
    fact: str = ""

    @property
    def counts_work(self) -> bool:
        return self.fact.partition(".")[0] == WORK

    @property
    def name(self) -> str:
        """As in "the code changed"."""
        whole = {"code": "the code", "numerics": "the numerics", "requirement": "the requirements"}
        return whole.get(self.kind) or f"the fact {self.fact}"

    def answer(self, observed: Observation) -> str:
        """For people and for `is_same`. Raises QuestionError if there is none."""
        if observed.error:
            return f"compiling raises {observed.error}"
        if self.kind == "code":
            return observed.code
        if self.kind == "fact":
            if self.fact not in observed.facts:
                known = ", ".join(name for name in observed.facts if "." not in name) or "none"
                raise QuestionError(f"--fact {self.fact}: the case has no such fact on this target; it has: {known}")
            return observed.facts[self.fact]
        if self.kind == "requirement":
            return "not met: " + "; ".join(observed.unmet) if observed.unmet else "met"
        if not observed.numerics:
            raise QuestionError(f"the numerics cannot be compared: {observed.problem}")
        return observed.numerics

    def is_same(self, one: str, other: str) -> bool:
        """Whether two answers are the same. Calls of a compile may differ a little."""
        if self.counts_work and one.isdecimal() and other.isdecimal():
            return not is_changed(int(one), int(other))
        return one == other

    def short_answer(self, observed: Observation) -> str:
        """The answer in one line, for people."""
        return f"{len(self.answer(observed).splitlines())} lines" if self._is_long(observed) else self.answer(observed)

    def _is_long(self, observed: Observation) -> bool:
        return "\n" in self.answer(observed)
