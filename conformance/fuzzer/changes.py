"""Changes between two calls of a program: of the state that it reads, of its inputs, and of modes of torch.

After each of them, compiled code must do what eager does: a guard of Dynamo sees the change, or it does not matter.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from conformance.minimisation.call_history import two_calls
from conformance.minimisation.program import EagerRun, Program, Step

#: Changes of one input.
_OF_AN_INPUT = (
    "{x} = {x}.detach().requires_grad_(not {x}.requires_grad)",
    "{x} = {x}.double()",
    "{x} = {x}.to(torch.bfloat16)",
    "{x} = {x} * 2",
    "{x} = {x}.detach().neg()",
    "{x} = torch.nn.Parameter({x}.detach().clone())",
    "{x} = {x}.transpose(0, -1).contiguous().transpose(0, -1)",
    "{x} = {x}.repeat_interleave(2, -1)[..., ::2]",
    "{x} = {x}[:1].expand({x}.shape)",
)
#: Changes of two inputs with the same shape and dtype.
_OF_TWO_INPUTS = ("{x} = {y}", "{x}, {y} = overlapping({x})", "{x}, {y} = {y}, {x}")
_CONTEXTS = (
    "torch.no_grad()",
    "torch.inference_mode()",
    "torch.autocast('cpu', torch.bfloat16)",
    "torch.autograd.graph.saved_tensors_hooks(same, helper)",
    "DefaultDtype(torch.float64)",
)


def with_state(program: Program, chance: random.Random) -> Program | None:
    """The program with an idiom of state, a change between two calls, or both; None if eager does not run it."""
    from conformance.fuzzer.idioms_of_state import pairs, sources

    changed = replace(program, helpers=sources())
    between: list[str] = []
    context = ""
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        name, change = chance.choice(pairs())
        changed = _with_idiom(changed, name, chance)
        between += [change] if change else []
    if chance.random() < (0.3 if changed.is_called_again else 1):
        if chance.random() < 0.3:
            context = chance.choice(_CONTEXTS)
        elif lines := list(_changes_of_inputs(program)):
            between.append(chance.choice(lines))
    changed = replace(changed, between=tuple(between), context=context)
    return changed if changed.is_called_again and _runs(changed) else None


def _with_idiom(program: Program, name: str, chance: random.Random) -> Program:
    """The program with a call of the idiom, whose result may take the place of its argument."""
    import torch

    run = EagerRun(program)
    places = [
        (number, step.name)
        for number, step in enumerate(program.steps)
        if isinstance(value := run.values.get(step.name), torch.Tensor) and value.is_floating_point() and value.numel()
    ]
    if not places:
        return program
    number, argument = chance.choice(places)
    call = Step(f"of_{name}_{len(program.steps)}", f"{name}({argument})")
    before, after = program.steps[: number + 1], program.steps[number + 1 :]
    whole = replace(program, steps=(*before, call, *after), outputs=(*program.outputs, call.name))
    if chance.random() < 0.6:
        used = replace(whole, steps=(*before, call, *(step.with_constants({argument: call.name}) for step in after)))
        if EagerRun(used).raised is None:
            return used
    return whole


def _changes_of_inputs(program: Program) -> Iterator[str]:
    floating = {name: value for name, value in program.inputs.items() if value.is_floating_point()}
    for name, value in floating.items():
        if value.dim() and value.numel():
            yield from (line.format(x=name) for line in _OF_AN_INPUT)
        for other, theirs in floating.items():
            if name < other and value.shape == theirs.shape and value.dtype == theirs.dtype:
                yield from (line.format(x=name, y=other) for line in _OF_TWO_INPUTS)
    for size in {size for value in program.inputs.values() for size in value.shape if size > 1}:
        grown = [name for name, value in program.inputs.items() if size in value.shape]
        for by in (1, 1 - size, -size, size):
            yield "; ".join(f"{name} = grown({name}, {size}, {by})" for name in grown)


def _runs(program: Program) -> bool:
    """Whether eager makes both calls, and the backward of the second one."""
    import torch

    def same(function: Any) -> Any:
        return function

    with contextlib.suppress(Exception):  # whatever eager refuses is no program
        torch.manual_seed(0)
        results = two_calls(program.text, same)(**program.inputs)
        ends = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
        torch.autograd.backward(ends, list(map(torch.ones_like, ends)))
        return True
    return False
