"""A program: a function of tensors as a list of steps, with the value that each step has in eager.

Programs are cut: a step that is left out becomes an input with its value in eager, or a constant.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.capture.dynamo_graphs import WrittenGraph
from conformance.containers import copy_to
from conformance.errors import ConformanceError

#: A text in quotes, or a name that is no attribute and no keyword of a call.
_WORD = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w.])[A-Za-z_]\w*(?!\w*=[^=])""")
_CONSTANTS = (bool, int, float, complex, str, type(None))


class CutError(ConformanceError, RuntimeError):
    """Steps that cannot be left out: their values are neither tensors nor constants."""


@dataclass(frozen=True)
class Step:
    """`name = expression`."""

    name: str
    expression: str

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """The names in the expression; some may be functions, and some texts in quotes."""
        return frozenset(_WORD.findall(self.expression))

    @property
    def line(self) -> str:
        """The step in a function. Dynamo captures `operator.setitem(x, i, y)` otherwise than `x[i] = y`."""
        if self.expression.startswith("operator.setitem("):
            tree = ast.parse(self.expression, mode="eval").body
            if isinstance(tree, ast.Call) and len(tree.args) == 3:
                owner, key, value = map(ast.unparse, tree.args)
                return f"{owner}[{key}] = {value}"
        return f"{self.name} = {self.expression}"

    def with_constants(self, constants: Mapping[str, str]) -> Step:
        """The step, with texts in place of names."""
        if not self.words & constants.keys():
            return self
        return Step(self.name, _WORD.sub(lambda match: constants.get(match[0], match[0]), self.expression))


@dataclass(frozen=True)
class Program:
    """`inputs`: name → tensor. `outputs`: names of steps or inputs.

    `helpers`: name → the source of a function, class or variable of the module, in order. `between`: statements of the
    module between two calls, which may change it and the inputs of the second call. `context`: of the second call.
    """

    inputs: Mapping[str, Any]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    helpers: Mapping[str, str] = field(default_factory=dict)
    between: tuple[str, ...] = ()
    context: str = ""

    @classmethod
    def of_graph(cls, graph: WrittenGraph) -> Program:
        return cls(graph.inputs, tuple(Step(*each) for each in graph.steps), tuple(graph.outputs))

    @property
    def text(self) -> str:
        """The function `program`, with the imports that it needs."""
        body = [f"    {step.line}" for step in self.steps]
        result = self.outputs[0] if len(self.outputs) == 1 else f"({', '.join(self.outputs)})"
        function = [f"def program({', '.join(self.inputs)}):", *body, f"    return {result}"]
        words = {word for step in self.steps for word in step.words}
        imports = [f"from math import {', '.join(sorted(words & {'inf', 'nan'}))}"] if words & {"inf", "nan"} else []
        imports += ["import operator"] if any("operator." in line for line in body) else []
        before = [line for source in self.used_helpers() for line in (source, "", "")]
        return "\n".join([*imports, "import torch", "", "", *before, *function, *self._second_call(), ""])

    def used_helpers(self) -> list[str]:
        """The sources of the helpers that the program needs, in order."""
        used = {word for step in self.steps for word in step.words}
        used |= {word for text in (*self.between, self.context) for word in _WORD.findall(text)}
        for name, source in reversed(list(self.helpers.items())):
            used |= set(_WORD.findall(source)) if name in used else set()
        return [source for name, source in self.helpers.items() if name in used]

    @property
    def is_called_again(self) -> bool:
        """Whether what it does depends on what was called, or changed, before: see call_history.py."""
        return bool(self.between or self.context or self.used_helpers())

    def _second_call(self) -> Iterator[str]:
        """The functions `between` and `context` of a program that is called again."""
        if self.is_called_again:
            names = ", ".join(self.inputs)
            result = f"({names},)" if len(self.inputs) == 1 else f"({names})"
            yield from ("", "", f"def between({names}):", *(f"    {line}" for line in self.between))
            yield f"    return {result}"
        if self.context:
            yield from ("", "", "def context():", f"    return {self.context}")

    @property
    def function(self) -> Callable[..., Any]:
        """The function `program`, whose arguments are the inputs by name."""
        names: dict[str, Any] = {}
        exec(compile(self.text, "program.py", "exec"), names)  # noqa: S102 - the text of nodes of a graph
        return names["program"]

    def used(self, name: str) -> bool:
        """Whether a step, an output or a change between two calls uses a name."""
        changed = any(name in _WORD.findall(line) for line in self.between)
        return changed or name in self.outputs or any(name in step.words for step in self.steps)

    def without_unused_inputs(self) -> Program:
        return replace(self, inputs={name: value for name, value in self.inputs.items() if self.used(name)})


class EagerRun:
    """One eager run of a program: the value of each name right after its step.

    `values`: name → copy of a tensor, or another value. `raised`: what a step raised; the steps after it have no
    values.
    """

    def __init__(self, program: Program) -> None:
        import operator

        import torch

        self.program = program
        self.values: dict[str, Any] = dict(program.inputs)
        self.raised: Exception | None = None
        names: dict[str, Any] = {
            "__name__": "program",
            "torch": torch,
            "operator": operator,
            "inf": float("inf"),
            "nan": float("nan"),
        }
        names |= copy_to(dict(program.inputs), "cpu")
        exec("\n\n".join(program.used_helpers()), names)  # noqa: S102 - the source of a module of this package
        torch.manual_seed(0)
        for step in program.steps:
            try:
                names[step.name] = eval(step.expression, names)  # noqa: S307 - the text of a node of a graph
            except Exception as error:  # noqa: BLE001 - a program may be one that raises
                self.raised = error
                return
            self.values[step.name] = _kept(names[step.name])

    def cut(self, kept: Collection[str], outputs: Sequence[str] | None = None) -> Program:
        """The program of the steps in `kept`. Its outputs: those of `outputs` (None: the program's) that are still
        computed, and each value that nothing uses. Raises CutError.
        """
        kept = set(kept)
        steps: list[Step] = []
        inputs: dict[str, Any] = dict(self.program.inputs)
        constants: dict[str, str] = {}
        known = {step.name for step in self.program.steps}
        gone = known - kept
        for step in self.program.steps:
            name = step.name
            if name in kept:
                if lost := step.words & gone - inputs.keys() - constants.keys():
                    if not _is_tensor(self.values.get(name)):
                        raise CutError(f"{name} needs {', '.join(sorted(lost))}")
                    inputs[name] = self.values[name]  # a part of a tuple whose step is left out
                    gone.add(name)
                    continue
                steps.append(step.with_constants(constants))
            elif _is_tensor(self.values.get(name)):
                inputs[name] = self.values[name]
            elif name in self.values and isinstance(self.values[name], _CONSTANTS):
                constants[name] = repr(self.values[name])
        computed = {step.name for step in steps}
        chosen = [each for each in (self.program.outputs if outputs is None else outputs) if each in computed]
        if outputs is None or not chosen:
            used = {word for step in steps for word in step.words}
            results = (step.name for step in steps if step.name not in used and step.name not in chosen)
            chosen += [name for name in results if self._is_result(name)]
        if not chosen:
            raise CutError("nothing is left to return")
        cut = replace(self.program, inputs=inputs, steps=tuple(steps), outputs=tuple(chosen))
        return cut.without_unused_inputs()

    def needed_for(self, outputs: Sequence[str]) -> set[str]:
        """The steps that outputs depend on, and those that write to a tensor."""
        needed = set(outputs)
        for step in reversed(self.program.steps):
            if step.name in needed or _writes(step):
                needed |= {step.name, *step.words}
        return {step.name for step in self.program.steps if step.name in needed}

    def _is_result(self, name: str) -> bool:
        """A step without a value is one that raises, or comes after it."""
        return name not in self.values or not isinstance(self.values[name], _CONSTANTS)


def _kept(value: Any) -> Any:
    if not _is_tensor(value):
        return tuple(value) if type(value).__name__ == "Size" else value
    try:
        return copy_to(value.detach(), "cpu").requires_grad_(value.requires_grad)
    except (NotImplementedError, RuntimeError):
        return _NOT_KEPT


#: In place of a tensor that cannot be copied: it has no storage, as inside of torch.func.grad.
_NOT_KEPT = object()


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _writes(step: Step) -> bool:
    return bool(re.search(r"_\(|setitem|out=|set_grad_enabled|torch\.ops\.(?!aten|prims)", step.expression))


def names_of_tensor(problem_tensor: str, outputs: Sequence[str]) -> Iterator[str]:
    """The output that a problem names: `output` of one, `output[1]` of several."""
    if match := re.match(r"output(?:\[(\d+)\])?", problem_tensor):
        place = int(match[1] or 0)
        yield from outputs[place : place + 1] if len(outputs) > 1 else outputs
