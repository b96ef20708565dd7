"""Writes each part of the command explore alone, as one smallest program, into a script that worker.py can run.

    python parts.py FOLDER      # scripts, inputs, and scripts.json: name of the part → path of its script

The text of a program comes from the code that explore uses, and the installed torch captures the idioms of tensors. A
name has a group in front, `state: …`. The script calls comparison.py. This uses private functions of explore, because
they are what is measured.
"""
# ruff: noqa: SLF001

from __future__ import annotations

import dataclasses
import inspect
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from conformance.compiler.compiler import compiler_here
from conformance.fuzzer import changes, forms, generator
from conformance.fuzzer.changes import pairs
from conformance.fuzzer.idioms import IDIOMS
from conformance.fuzzer.state_sources import idioms, sources
from conformance.minimisation.program import Program, Step

#: Functions of two tensors whose arguments get another dtype or size.
_OF_TWO = ("x0 + x1", "x0.add_(x1)", "x0.mul_(x1)", "x0.div_(x1)", "x0 @ x1.mT", "torch.cat([x0, x1])", "x0.copy_(x1)")
_SCRIPT = """\
import torch
from comparison import check

TEXT = {text!r}
check(TEXT, torch.load({inputs!r}), {options!r})
"""


@dataclass(frozen=True)
class Part:
    """`options`: of Inductor."""

    name: str
    program: Program
    options: Mapping[str, Any] | None = None


def parts() -> Iterator[Part]:
    """All parts, those of state first. What eager refuses is none, but for wrong arguments."""
    compiler_here().set_up_torch()
    yield from _of_state()
    yield from _of_changes()
    for name in sorted(IDIOMS):
        yield from _of_an_idiom(name)
    yield from _of_wrong_arguments()


def write(found: Iterable[Part], folder: Path) -> None:
    """Writes scripts.json, and for each part a script and its inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    scripts = {}
    for number, part in enumerate(found):
        path, inputs = folder / f"part_{number}.py", folder / f"part_{number}.pt"
        torch.save(dict(part.program.inputs), inputs)
        options = dict(part.options) if part.options else None
        path.write_text(_SCRIPT.format(text=part.program.text, inputs=str(inputs), options=options), encoding="utf-8")
        scripts[part.name] = str(path)
    (folder / "scripts.json").write_text(json.dumps(scripts), encoding="utf-8")


def _tensor(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _of_state() -> Iterator[Part]:
    """Each pair of an idiom of state and a change, and each idiom with each context of the second call."""
    plain = Program({"x0": _tensor(3, 4)}, (Step("v0", "x0 * 2"),), ("v0",), sources())
    differentiable = dataclasses.replace(plain, inputs={"x0": _tensor(3, 4).requires_grad_()})
    for group, program in (("state", differentiable), ("state without gradients", plain)):
        for name, change in pairs():
            whole = changes._with_idiom(program, name, random.Random(0))
            named = f"{group}: {name}{'; ' * bool(change)}{change}"
            yield from _if_eager_runs(named, whole, between=(change,) * bool(change))
    for name in idioms():
        program = changes._with_idiom(differentiable, name, random.Random(0))
        for context in changes._CONTEXTS:
            yield from _if_eager_runs(f"context: {name}; {context}", program, context=context)


def _of_changes() -> Iterator[Part]:
    """Each change of inputs, and each context, of two small programs."""
    inputs = {"x0": _tensor(4), "x1": _tensor(4, seed=1)}
    for steps in (("x0.mul_(2)", "x0 + x1"), ("x0.sin() * x1",)):
        named = tuple(Step(f"v{number}", line) for number, line in enumerate(steps))
        program = Program(inputs, named, (named[-1].name,), sources())
        of = "; ".join(steps)
        for change in changes._changes_of_inputs(program):
            yield from _if_eager_runs(f"change: {change} of {of}", program, between=(change,))
        for context in changes._CONTEXTS:
            yield from _if_eager_runs(f"change: {context} of {of}", program, context=context)


def _if_eager_runs(name: str, program: Program, **changed: Any) -> Iterator[Part]:
    program = dataclasses.replace(program, **changed)
    if program.is_called_again and changes._runs(program):
        yield Part(name, program)


def _of_an_idiom(name: str) -> Iterator[Part]:
    """The idiom as it is, of special values, and of a transposed input; with eager's random numbers if it draws."""
    other = _tensor(3, 20, seed=1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    program = _captured(IDIOMS[name], _tensor(3, 20), other)
    if program is None:
        return
    options = None if torch.equal(before, torch.get_rng_state()) else forms.SEEDED
    yield Part(f"idiom: {name}", program, options)
    transposed = _captured(IDIOMS[name], _tensor(20, 3).t(), other)
    if transposed is not None:
        yield Part(f"idiom of a transpose: {name}", transposed, options)
    for group in ("nan", "inf", "edges"):
        if group == "edges" or not forms._NEEDS_NUMBERS.search(program.text):
            special = forms._with_special_values(program, group, random.Random(0))
            yield Part(f"idiom of {group}: {name}", special, options)


def _captured(idiom: Callable[..., Any], x: Any, y: Any) -> Program | None:
    """The program as explore captures it; None where the idiom does not take the tensors."""
    wanted = inspect.signature(idiom).parameters
    given = {name: value for name, value in (("x", x), ("y", y), ("dim", 1)) if name in wanted}

    def function() -> tuple[Any, ...]:
        return tuple(generator.tensors_in(idiom(**given)))

    torch.compiler.reset()
    return generator._captured(function)


def _of_wrong_arguments() -> Iterator[Part]:
    """Small programs of two tensors, one of which eager refuses."""
    inputs = {"x0": _tensor(2, 3, 4), "x1": _tensor(2, 3, 4, seed=1)}
    for line in _OF_TWO:
        program = Program(inputs, (Step("v0", line),), ("v0",))
        seen = set()
        for seed in range(40):
            wrong = forms._with_a_wrong_argument(program, random.Random(seed))
            if wrong is None:
                continue
            of = ", ".join(f"{value.dtype} {tuple(value.shape)}" for value in wrong.inputs.values())
            name = f"wrong argument: {line} of {of}".replace("torch.float32", "f32").replace("torch.", "")
            if name not in seen:
                seen.add(name)
                yield Part(name, wrong)


if __name__ == "__main__":
    write(parts(), Path(sys.argv[1]))
