"""Changes between two calls of a program: of the state that it reads, of its inputs, and of modes of torch.

After each of them, compiled code must do what eager does: a guard of Dynamo sees the change, or it does not matter.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from conformance.minimisation.call_history import two_calls
from conformance.minimisation.program import EagerRun, Program, Step

#: Idiom → statements that may stand between two calls of a program that has it.
OF_STATE = {
    "setting_of_a_class": ("Settings.factor = 4.0", "Settings.factor = 3"),
    "item_of_a_dict": ("Settings.layers['first'] = 5.0", "Settings.layers = {'first': -1.0}"),
    "attribute_of_an_object": (
        "shift.amount = 4.0",
        "shift.__class__ = Times",
        "Plus.__call__ = Times.__call__",
        "Plus.amount = 2.0",
        "globals()['shift'] = Times()",
    ),
    "item_of_a_list": ("shared[-1] = 7.0", "shared.append(3.0)", "globals()['shared'] = [5.0]"),
    "sum_of_a_list": ("shared.append(3.0)", "shared.clear()", "shared[0] = 4"),
    "list_argument_and_global": ("globals()['shared'] = [5.0, 1.0]", "shared.reverse()"),
    "appended": ("Settings.seen.clear()",),
    "counted": ("shift.amount = 0",),
    "global_function": ("globals()['helper'] = other_helper", "helper.__code__ = other_helper.__code__"),
    "closure_with_default": ("globals()['move'] = made(2.0)", "move.__defaults__ = (4.0,)"),
    "global_tensor": ("offset.add_(1)", "globals()['offset'] = torch.tensor(2.0)", "offset.data = torch.tensor(3.0)"),
    "layer": (
        "scale.register_forward_hook(hook_on_output)",
        "scale.register_forward_pre_hook(hook_on_input)",
        "scale.register_full_backward_hook(hook_on_gradient)",
        "scale.register_full_backward_pre_hook(hook_before_gradient)",
        "scale.offset = torch.tensor(2.0)",
        "scale.offset.add_(1)",
        "scale.weight = torch.nn.Parameter(torch.tensor(4.0))",
        "scale.weight.requires_grad_(False)",
        "scale.weight.data = torch.tensor(3.0)",
        "scale.power = 2",
        "scale.forward = other_helper",
        "scale.load_state_dict({'weight': torch.tensor(3.0), 'offset': torch.tensor(1.0)})",
        "scale.load_state_dict({'weight': torch.tensor(3.0), 'offset': torch.tensor(1.0)}, assign=True)",
        "scale.double()",
    ),
    "layer_without_gradient": ("scale.power = 2", "scale.weight.data.add_(1)"),
    "layer_that_trains": (
        "with_dropout[0].register_forward_hook(hook_on_output)",
        "with_dropout.eval()",
        "with_dropout[1].p = 0.0",
        "with_dropout[0] = torch.nn.ReLU()",
    ),
}
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
    from conformance.fuzzer.state_sources import sources

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


@functools.cache
def pairs() -> list[tuple[str, str]]:
    """Each idiom with each of its changes, and with none: "". Each is drawn as often as any other."""
    from conformance.fuzzer.state_sources import idioms

    return [(name, change) for name in idioms() for change in ("", *OF_STATE.get(name, ()))]


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
