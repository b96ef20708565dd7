"""Capture: the result of compiling one case for one target. Plain data: processes exchange it as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

#: native: compiled for the real device of this machine. deviceless: generated without the device.
Mode = Literal["native", "deviceless"]
#: captured: the graph that Dynamo captured.
Stage = Literal["captured", "joint", "forward", "backward"]
ModuleKind = Literal["inference", "forward", "backward"]


@dataclass
class Module:
    """One wrapper module that Inductor generated: a graph of a compiled function, or its backward.

    `code`: the text as Inductor wrote it. `graph`: the lowered FX graph, readable. `ir_pre_fusion`, `ir_post_fusion`:
    the scheduler's nodes. `observed`: observer name → what it recorded during code generation (capture/observers).
    """

    kind: ModuleKind
    code: str
    graph: str = ""
    ir_pre_fusion: str = ""
    ir_post_fusion: str = ""
    observed: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deferred: dict[str, Callable[[], str]] = {}

    def defer(self, name: str, make_text: Callable[[], str]) -> None:
        """Sets a field that is slow to make and seldom read: `Capture.complete` calls `make_text`."""
        self._deferred[name] = make_text


@dataclass
class Graph:
    """An FX graph before or after some passes. `when`: which passes, as printed text. `text`: the readable graph."""

    stage: Stage
    when: str
    text: str


@dataclass
class Frame:
    """A Python function that Dynamo compiled, or the part of one after a graph break.

    `original`, `modified`: its bytecode before and after. `guards`: the conditions for reusing the compiled code.
    """

    name: str
    original: str
    modified: str
    guards: list[str] = field(default_factory=list)


@dataclass
class Exploration:
    """What only an explored capture has. It takes time to make, and no check reads it.

    `graphs`: in the order in which torch made them. `script`: a Python file that runs the captured graphs with plain
    torch. `log`: torch's own log messages, as [artifact, message].
    """

    graphs: list[Graph] = field(default_factory=list)
    script: str = ""
    frames: list[Frame] = field(default_factory=list)
    log: list[list[str]] = field(default_factory=list)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Exploration:
        graphs = [Graph(**graph) for graph in data["graphs"]]
        frames = [Frame(**frame) for frame in data["frames"]]
        return cls(graphs, data["script"], frames, data["log"])


@dataclass
class Capture:
    """All that was generated for one (case, target).

    `torch`, `triton`: versions. `joint_graph`: the joint forward-backward graph, readable; empty without gradients.
    `counters`: torch's own counters, by group ("inductor", "graph_break", …). `seconds`: wall time of the first call.
    `matches`: of the patterns that the case's requirements name: see observers/pattern_matches.py.
    `error`: type and message of the exception where there is no code because compiling raised, as eager does.
    `calls`: of Python functions, if they were counted; see call_counts.py.
    `unknown`: fact → the part of torch that it needs and that the installed torch lacks.
    `exploration`: only of an explored capture.
    """

    case: str
    target: str
    mode: Mode
    torch: str
    triton: str
    modules: list[Module] = field(default_factory=list)
    joint_graph: str = ""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    matches: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    exploration: Exploration | None = None

    def complete(self) -> Capture:
        """Makes all deferred texts and returns self. Call it before reading graphs and IR, in the capture's context."""
        for module in self.modules:
            for name, make_text in module._deferred.items():
                setattr(module, name, make_text())
            module._deferred.clear()
        return self

    def to_json(self, *, complete: bool = True) -> dict[str, Any]:
        """The capture as JSON. `complete`: with the deferred texts."""
        if complete:
            self.complete()
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Capture:
        data = dict(data)
        data["modules"] = [Module(**module) for module in data["modules"]]
        if data.get("exploration") is not None:
            data["exploration"] = Exploration.from_json(data["exploration"])
        return cls(**data)
