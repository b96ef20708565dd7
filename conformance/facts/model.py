"""What a fact is: a value to compare with, lines to read; and what extractors are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.model import Capture
from conformance.errors import ConformanceError


class FactError(ConformanceError, LookupError):
    """A fact that does not exist, or that the capture cannot tell; the message names those that do exist."""


@dataclass(frozen=True)
class Fact:
    """`value`: JSON-able, what a requirement compares with. `lines`: for the reader; none where another fact shows it.

    `parts`: finer values, asked for as `name.part`; `absent`: the value of a part that is not there, None for an error.
    """

    value: Any
    lines: tuple[str, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    absent: Any = None


@dataclass(frozen=True)
class Seen:
    """`calls`: everything that the capture's modules call, in order, each with the `module` that it is of.

    `cpp`: whether a module is for the cpu; `triton`: whether one is for another device.
    """

    capture: Capture
    calls: list[dict[str, Any]]
    cpp: bool
    triton: bool

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """The calls of generated kernels."""
        return [call for call in self.calls if call["call"] == "kernel"]

    @classmethod
    def of(cls, capture: Capture) -> Seen:
        """Raises FactError where the capture was made without observing."""
        calls = []
        kinds = [module.kind for module in capture.modules]
        for number, module in enumerate(capture.modules, 1):
            if "calls" not in module.observed:
                raise FactError(f"module {number} ({module.kind}) was not observed: capture it with observe.patches()")
            label = module.kind if kinds.count(module.kind) == 1 else f"graph {number} {module.kind}"
            calls += [{**call, "module": "" if len(kinds) == 1 else label} for call in module.observed["calls"]]
        devices = {device for module in capture.modules for device in module.observed["devices"]}
        return cls(capture, calls, "cpu" in devices, bool(devices - {"cpu", "meta"}))


#: A fact of what was seen; None where there is no such fact on the capture's device.
Extractor = Callable[[Seen], Fact | None]


class Facts:
    """An ordered mapping of name → Fact. `further`: those that are worked out when they are asked for by name.

    `compiled`: likewise, and not even by `further()`: they need every kernel compiled.
    """

    def __init__(
        self,
        facts: Mapping[str, Fact],
        further: Mapping[str, Callable[[], Fact | None]] | None = None,
        compiled: Mapping[str, Callable[[], Fact | None]] | None = None,
    ) -> None:
        self._facts = dict(facts)
        self._further = dict(further or {})
        self._compiled = dict(compiled or {})

    def __iter__(self):
        return iter(self._facts)

    def __getitem__(self, name: str) -> Fact:
        return self._facts[name]

    def value(self, name: str) -> Any:
        """The value of `kernels`, or of a part: `kernels.backward`, `patterns.fuse_attention`, `extern.mm`.

        Raises FactError for a name that is unknown, or unknown for this capture's device.
        """
        whole, _, part = name.partition(".")
        fact = self._facts.get(whole)
        later = self._further | self._compiled
        if fact is None and whole in later:
            fact = later[whole]()
        if fact is None:
            raise FactError(f"no fact {name!r}{_only(whole)}: known are {', '.join([*self._facts, *later])}")
        if not part:
            return fact.value
        if part not in fact.parts and fact.absent is None:
            known = ", ".join(f"{whole}.{each}" for each in fact.parts) or "none"
            raise FactError(f"{whole!r} has no part {part!r}: known are {known}")
        return fact.parts.get(part, fact.absent)

    def further(self) -> Facts:
        """Those that no snapshot stores, worked out now."""
        found = {name: extract() for name, extract in self._further.items()}
        return Facts({name: fact for name, fact in found.items() if fact is not None}, {})

    def lines(self) -> dict[str, str]:
        """Texts by name; of several lines where there is more to say, those after the first indented by two."""
        return {name: "\n  ".join(fact.lines) for name, fact in self._facts.items() if fact.lines}

    def to_json(self) -> dict[str, Any]:
        return {name: fact.value for name, fact in self._facts.items()}


def _only(name: str) -> str:
    devices = {"vectorised": "cpu", "tiling": "gpu", "tma": "gpu"}
    return f" (it is one of {devices[name]} captures only)" if name in devices else ""
