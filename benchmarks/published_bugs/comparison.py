"""Compares a program of explore in eager and compiled. The scripts of parts.py call it, with any torch release."""

import torch

from conformance.minimisation.call_history import two_calls


def check(text, inputs, options=None):
    """Raises AssertionError if compiled code answers otherwise than eager. `options`: of Inductor."""
    expected = _outcome(text, inputs, lambda function: function)
    answer = _outcome(text, inputs, lambda function: torch.compile(function, options=options))
    if isinstance(expected, Exception):
        if isinstance(answer, Exception):
            return
        raise AssertionError(f"eager raises {type(expected).__name__}, compiled answers")
    if isinstance(answer, Exception):
        raise answer
    for name, value in expected.items():
        torch.testing.assert_close(answer[name], value, equal_nan=True, msg=lambda why, of=name: f"{of}: {why}")


def _outcome(text, inputs, compile_):
    """Tensors after the calls, whether they require a gradient, gradients of the inputs. Or what was raised."""
    given = {name: value.detach().clone().requires_grad_(value.requires_grad) for name, value in inputs.items()}
    wanted = [value for value in given.values() if value.requires_grad]
    torch.manual_seed(0)
    try:
        results = [*_called(text, given, compile_), *given.values()]
        results = [each if isinstance(each, torch.Tensor) else torch.tensor(each) for each in results]
        ends = [each for each in results if each.requires_grad]
        seeds = [torch.ones_like(each) for each in ends]
        gradients = torch.autograd.grad(ends, wanted, seeds, allow_unused=True) if wanted and ends else ()
    except Exception as error:  # noqa: BLE001 - which ones both raise is compared
        return error
    return {
        "values": [each.detach() for each in results],
        "requires_grad": [each.requires_grad for each in results],
        "gradients": [torch.zeros(0) if each is None else each.detach() for each in gradients],
    }


def _called(text, given, compile_):
    if "\ndef between(" in text:
        return two_calls(text, compile_)(**given)
    names = {}
    exec(compile(text, "program.py", "exec"), names)  # noqa: S102 - written by conformance/minimisation/program.py
    result = compile_(names["program"])(**given)
    return result if isinstance(result, tuple) else (result,)
