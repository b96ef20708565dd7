"""Capture: what compiling one case for one target gave. Plain data, so that it travels as JSON between processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

#: Where a capture came from: the real device, or generated without one.
Mode = Literal["native", "deviceless"]


@dataclass
class Module:
    """One wrapper module that Inductor generated: a graph of a compiled function, or its backward.

    `code`: the text as Inductor wrote it. `graph`: the FX graph that was lowered, readable. `ir_pre_fusion`,
    `ir_post_fusion`: the scheduler's nodes. `observed`: what observe.py saw while it was generated.
    """

    kind: Literal["inference", "forward", "backward"]
    code: str
    graph: str = ""
    ir_pre_fusion: str = ""
    ir_post_fusion: str = ""
    observed: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deferred: dict[str, Callable[[], str]] = {}

    def defer(self, name: str, text: Callable[[], str]) -> None:
        """A field that costs time and is seldom looked at: `text` gives it when the capture is completed."""
        self._deferred[name] = text


@dataclass
class Graph:
    """An FX graph at one moment. `stage`: captured (by Dynamo), joint, forward or backward; `when`: before or after
    which passes, for the reader; `text`: readable.
    """

    stage: Literal["captured", "joint", "forward", "backward"]
    when: str
    text: str


@dataclass
class Frame:
    """A Python function that Dynamo compiled, or the rest of one after a graph break.

    `original`, `modified`: its bytecode before and after; `guards`: when the compiled one is used again, a line each.
    """

    name: str
    original: str
    modified: str
    guards: list[str] = field(default_factory=list)


@dataclass
class Exploration:
    """What an explored capture has besides; it costs time, and no check looks at it.

    `graphs`: in the order in which they came up. `script`: a Python file that runs the captured graphs by itself.
    `log`: what torch's own logs said, as [artifact, message].
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

    `joint_graph`: the joint forward-backward graph, readable; empty without gradients.
    `counters`: torch's own, by group ("inductor", "graph_break", …). `error`: type and message where there is no code,
    since compiling raised as eager does.
    `exploration`: where it was asked for.
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
    exploration: Exploration | None = None

    def complete(self) -> Capture:
        """Itself, all texts written out. Call it before looking at graphs and IR, while the capture's context lasts."""
        for module in self.modules:
            for name, text in module._deferred.items():
                setattr(module, name, text())
            module._deferred.clear()
        return self

    def to_json(self) -> dict[str, Any]:
        self.complete()
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Capture:
        data = dict(data)
        data["modules"] = [Module(**module) for module in data["modules"]]
        if data.get("exploration") is not None:
            data["exploration"] = Exploration.from_json(data["exploration"])
        return cls(**data)
