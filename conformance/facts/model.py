"""What a fact is (a value to compare, lines to read), and what the functions that extract facts get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.model import Capture
from conformance.devices.vendor_devices import kernel_language
from conformance.errors import ConformanceError


class FactError(ConformanceError, LookupError):
    """A fact that does not exist, or that this capture does not have. The message names the facts that exist."""


@dataclass(frozen=True)
class Fact:
    """`value`: JSON-able; a requirement compares with it. `lines`: for the reader; empty if another fact shows them.

    `parts`: finer values, by the part of `name.part`. `absent`: the value of any other part; None makes it an error.
    `instead`: takes a part, "" for the whole. Returns what is there instead of what a requirement wants, in few words.
    """

    value: Any
    lines: tuple[str, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    absent: Any = None
    instead: Callable[[str], str] = lambda _: ""


@dataclass(frozen=True)
class ObservedCapture:
    """A capture and what the observers recorded of it.

    `calls`: all that the modules of the capture call, in order; each has the `module` that it belongs to, "" if there
    is only one. `on_cpu`, `on_gpu`: whether a module is for a device with C++ kernels, as the CPU's, and whether one is
    for a device with Triton kernels, as a GPU's.
    """

    capture: Capture
    calls: list[dict[str, Any]]
    on_cpu: bool
    on_gpu: bool

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """The calls of generated kernels."""
        return [call for call in self.calls if call["call"] == "kernel"]

    @classmethod
    def of(cls, capture: Capture) -> ObservedCapture:
        """Raises FactError if no observer recorded the capture."""
        calls = []
        kinds = [module.kind for module in capture.modules]
        for number, module in enumerate(capture.modules, 1):
            if "calls" not in module.observed:
                raise FactError(
                    f"module {number} ({module.kind}) was not observed: compile it inside observers.kernels.observing()"
                )
            label = module.kind if kinds.count(module.kind) == 1 else f"graph {number} {module.kind}"
            calls += [{**call, "module": "" if len(kinds) == 1 else label} for call in module.observed["calls"]]
        devices = {device for module in capture.modules for device in module.observed["devices"]}
        languages = {kernel_language(device) for device in devices - {"meta"}}
        return cls(capture, calls, "cpp" in languages, "triton" in languages)


#: Returns a fact of a capture; None if the capture's device has no such fact.
Extractor = Callable[[ObservedCapture], Fact | None]


class Facts:
    """An ordered mapping of name → Fact.

    `further`: facts that are computed when someone asks for them by name. `compiled`: likewise; they need every kernel
    compiled, so `further()` leaves them out.
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

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __getitem__(self, name: str) -> Fact:
        return self._facts[name]

    def value(self, name: str) -> Any:
        """The value of a fact (`kernels`), or of a part (`kernels.backward`, `patterns.fuse_attention`, `extern.mm`).

        Raises FactError for an unknown name, or a fact that this capture's device does not have.
        """
        whole, _, part = name.partition(".")
        fact = self._fact(name)
        if not part:
            return fact.value
        if part not in fact.parts and fact.absent is None:
            known = ", ".join(f"{whole}.{each}" for each in fact.parts) or "none"
            raise FactError(f"{whole!r} has no part {part!r}: known are {known}")
        return fact.parts.get(part, fact.absent)

    def instead(self, name: str) -> str:
        """What is there instead of what a requirement wants of a fact or a part, in few words; "" if nothing says it.

        Raises FactError as `value` does.
        """
        return self._fact(name).instead(name.partition(".")[2])

    def text(self, name: str) -> str:
        """The lines of a fact, given its name or a part's. Further lines are indented by two. Raises FactError."""
        return "\n  ".join(self._fact(name).lines)

    def _fact(self, name: str) -> Fact:
        whole = name.partition(".")[0]
        fact = self._facts.get(whole)
        on_request = self._further | self._compiled
        if fact is None and whole in on_request:
            fact = on_request[whole]()
        if fact is None:
            known = ", ".join([*self._facts, *on_request])
            raise FactError(f"no fact {name!r}{_device_note(whole)}: known are {known}")
        return fact

    def further(self) -> Facts:
        """The facts that no snapshot stores, without those from binaries. Computes them now."""
        computed = {name: compute() for name, compute in self._further.items()}
        return Facts({name: fact for name, fact in computed.items() if fact is not None})

    def lines(self) -> dict[str, str]:
        """Name → text. Further lines of a text are indented by two. Facts without lines are left out."""
        return {name: "\n  ".join(fact.lines) for name, fact in self._facts.items() if fact.lines}

    def to_json(self) -> dict[str, Any]:
        return {name: fact.value for name, fact in self._facts.items()}

    def values(self) -> dict[str, Any]:
        """Name → value, and `name.part` → value: of the facts that snapshots store, by the names that `require=` takes.

        A part that is absent, and that `value` gives a default for, is left out. docs/formats.md lists the types.
        """
        found = {}
        for name, fact in self._facts.items():
            found[name] = fact.value
            found |= {f"{name}.{part}": value for part, value in fact.parts.items()}
        return found


def listed(texts: Sequence[str], most: int = 6) -> str:
    """The texts in one line, and how many are left out if there are more than `most`."""
    left_out = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {left_out} more" if left_out > 0 else "")


def _device_note(name: str) -> str:
    devices = {"vectorised": "CPU", "tiling": "GPU", "tma": "GPU", "block_pointers": "GPU", "fp64": "GPU"}
    if name == "cuda_graphs":
        return " (only GPU captures with the option triton.cudagraphs have it)"
    return f" (only {devices[name]} captures have it)" if name in devices else ""
