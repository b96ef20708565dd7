"""Records the graphs that Dynamo captures, with the arguments of their calls, and writes their nodes as Python text."""

from __future__ import annotations

import builtins
import contextlib
import keyword
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance.containers import copy_to
from conformance.errors import ConformanceError, first_line


class NotWritableError(ConformanceError, RuntimeError):
    """A graph that cannot be written as a function of tensors. The message says why, in one sentence."""


@dataclass
class RecordedCall:
    """One call of a captured graph. `graph`: a torch.fx.GraphModule. `arguments`: copies from before the call."""

    graph: Any
    arguments: list[Any]


@dataclass(frozen=True)
class WrittenGraph:
    """A graph as text. `inputs`: name → tensor. `steps`: (name, Python expression), in order. `outputs`: names."""

    inputs: dict[str, Any]
    steps: list[tuple[str, str]]
    outputs: list[str]


@dataclass
class Recorder:
    """A backend of torch.compile that runs each graph eagerly and records its calls."""

    calls: list[RecordedCall] = field(default_factory=list)

    def __call__(self, graph: Any, _example_inputs: Any) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self.calls.append(RecordedCall(graph, copy_to(list(arguments), "cpu")))
            return graph.forward(*arguments)

        return run


@contextlib.contextmanager
def recorded_compiles() -> Iterator[Recorder]:
    """Inside, torch.compile records and compiles nothing, whichever backend and options it is asked for."""
    import torch

    recorder, original = Recorder(), torch.compile

    def compile_(model: Any = None, *, dynamic: bool | None = None, fullgraph: bool = False, **_: Any) -> Any:
        return original(model, dynamic=dynamic, fullgraph=fullgraph, backend=recorder)

    torch.compiler.reset()
    torch.compile = compile_
    try:
        yield recorder
    finally:
        torch.compile = original
        torch.compiler.reset()


def written(call: RecordedCall) -> WrittenGraph:
    """The graph of a call as text. Raises NotWritableError."""
    return _Writer(call).write()


class _Writer:
    """Private: torch.fx.node._get_qualified_name, which names the function that a node calls."""

    def __init__(self, call: RecordedCall) -> None:
        self._call = call
        self._names: dict[Any, str] = {}
        self._inputs: dict[str, Any] = {}
        self._steps: list[tuple[str, str]] = []

    def write(self) -> WrittenGraph:
        import torch

        arguments = iter(self._call.arguments)
        outputs: list[str] = []
        for node in self._call.graph.graph.nodes:
            if node.op == "placeholder":
                self._add_input(node, next(arguments))
            elif node.op == "get_attr":
                value = self._call.graph
                for part in node.target.split("."):
                    value = getattr(value, part)
                if not isinstance(value, torch.Tensor):
                    raise NotWritableError(
                        f"the graph has a graph inside ({node.target}): higher-order operators are not supported"
                    )
                self._add_input(node, copy_to(value.detach(), "cpu"))
            elif node.op == "output":
                torch.fx.map_arg(node.args[0], lambda each: outputs.append(self._names[each]))
            else:
                expression = self._expression(node)
                self._steps.append((self._name(node, node.name), expression))
        return WrittenGraph(self._inputs, self._steps, list(dict.fromkeys(outputs)))

    def _add_input(self, node: Any, value: Any) -> None:
        import torch

        if not isinstance(value, torch.Tensor):
            raise NotWritableError(
                f"the graph takes a {type(value).__name__} ({node.name}): sizes that vary are not supported"
            )
        match = re.fullmatch(r"l_(.*?)_+", node.name, re.IGNORECASE)
        self._inputs[self._name(node, match[1] if match else node.name)] = value

    def _name(self, node: Any, wanted: str) -> str:
        name = re.sub(r"\W|^(?=\d)", "_", wanted)
        taken = {*self._names.values(), *keyword.kwlist, "torch", "operator", "inf", "nan", "program"}
        while name in taken or hasattr(builtins, name):
            name += "_"
        self._names[node] = name
        return name

    def _expression(self, node: Any) -> str:
        import torch

        if node.op == "call_method":
            owner, *rest = node.args
            return f"{self._text(owner)}.{node.target}({self._arguments(rest, node.kwargs)})"
        if node.op != "call_function":
            raise NotWritableError(f"the graph has a node {node.op} ({node.name}), which is not supported")
        target = node.target
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise NotWritableError(f"the graph calls {target}: higher-order operators are not supported")
        if target is operator.getitem:
            return f"{self._text(node.args[0])}[{self._text(node.args[1])}]"
        if target in _INFIX and len(node.args) == 2 and not node.kwargs:
            return f" {_INFIX[target]} ".join(self._text(each) for each in node.args)
        return f"{_function_name(target)}({self._arguments(node.args, node.kwargs)})"

    def _arguments(self, args: Any, kwargs: Any) -> str:
        return ", ".join([*map(self._text, args), *(f"{name}={self._text(value)}" for name, value in kwargs.items())])

    def _text(self, value: Any) -> str:
        import torch

        if isinstance(value, torch.fx.Node):
            return self._names[value]
        if isinstance(value, (tuple, list)):
            items = ", ".join(map(self._text, value))
            return f"[{items}]" if isinstance(value, list) else f"({items},)" if len(value) == 1 else f"({items})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._text(each)}" for key, each in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        if isinstance(value, torch.device):
            first = next(iter(self._inputs), "")
            return f"{first}.device" if first else f"torch.device({str(value)!r})"
        if value is Ellipsis:
            return "..."
        plain = (bool, int, float, complex, str, type(None), torch.dtype, torch.layout, torch.memory_format)
        if not isinstance(value, plain):
            raise NotWritableError(f"the graph has a constant of type {type(value).__name__}, which is not supported")
        return repr(value)  # inf and nan: the program imports these names


#: The namespaces of operators that torch alone has.
_NAMESPACES = ("aten", "prim", "prims", "quantized", "mkldnn")
_INFIX = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.matmul: "@",
    operator.gt: ">",
    operator.lt: "<",
}


def _function_name(target: Any) -> str:
    import torch

    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        if str(target).partition(".")[0] not in _NAMESPACES:
            raise NotWritableError(f"the graph calls the operator {target}, which torch alone does not have")
        return f"torch.ops.{target}"
    plain = str(getattr(target, "__name__", ""))
    if getattr(builtins, plain, None) is target:
        return plain
    try:
        name = torch.fx.node._get_qualified_name(target)
    except Exception as error:
        raise NotWritableError(f"the graph calls {target!r}, which has no name: {first_line(error)}") from error
    name = name.removeprefix("_operator.") if name.startswith("_operator.") else name
    name = f"operator.{name}" if getattr(operator, name, None) is target else name
    if not name.startswith(("torch.", "operator.")):
        raise NotWritableError(f"the graph calls {name}, which is not a part of torch")
    return str(name)
