"""Judges one finding of a fuzzer: is the compiled program wrong? Needs torch alone, and is run as a script.

    python benchmarks/fuzzers/judge.py script.py judged.json

The finding is a script that calls torch.compile. It runs until it calls what it compiled; the function and its
arguments are then called anew: twice in eager, once in eager with float64 in place of the smaller types, and once
compiled. The verdict is

    confirmed     the compiled program raises or ends the process where eager runs; its results have another structure,
                  dtype or shape than eager's; or they are further from float64 than eager's by a factor of WIDE
    false alarm   eager raises too, only fullgraph=True is refused, the program draws random numbers, or the results are
                  about as far from float64 as eager's
    unclear       all else: a person reads it

The file is written after each stage, so that it tells how far a process came that was ended.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

#: An error is wide if it is so many times eager's. Below NEAR times it is no error. A person looks at what is between.
WIDE, NEAR = 32.0, 4.0
#: The same for single elements, where eager can be exact by chance.
WIDE_ELEMENT = 1024.0
_DOUBLES = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
_CASTS = {"float", "half", "bfloat16"}
_REAL_COMPILE = torch.compile


class _CapturedError(BaseException):
    """Ends the script: its compiled function was called. No `except Exception` of the script stops it."""


class _NoReferenceError(Exception):
    """The program cannot be computed with float64. The message says why."""


class Call:
    """What a script compiles and calls. `options`: of torch.compile."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], args: Any, kwargs: Any) -> None:
        self.function, self.options, self.arguments = function, options, (args, kwargs)
        self.gradients = torch.is_grad_enabled()

    def copies(self, *, double: bool = False, nudged: bool = False) -> tuple[Callable[..., Any], Any]:
        """The function and fresh arguments, with their strides, and with the memory that they share.

        `double`: with float64 in place of smaller types. `nudged`: and each number is off by a unit of its own type.
        """
        storages: dict[int, torch.Tensor] = {}
        function: Any = self.function
        if isinstance(function, torch.nn.Module):
            function = copy.deepcopy(function)
            if double:
                for each in function.parameters():
                    each.data = _doubled(each.data, nudged=nudged)
                function.double()
        return function, pytree.tree_map(lambda each: _copied(each, storages, double, nudged), self.arguments)


def _doubled(value: torch.Tensor, *, nudged: bool) -> torch.Tensor:
    wide = value.to(_DOUBLES.get(value.dtype, value.dtype)).clone()
    if nudged and value.dtype in _DOUBLES:
        signs = torch.ones(wide.numel(), dtype=torch.float64)
        signs[::2] = -1
        wide = wide * (1 + torch.finfo(value.dtype).eps * signs.reshape(wide.shape))
    return wide


def _copied(value: Any, storages: dict[int, torch.Tensor], double: bool, nudged: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    storage = value.untyped_storage()
    if storage.data_ptr() not in storages or not storage.nbytes():
        flat = torch.empty(0, dtype=value.dtype).set_(storage)
        storages[storage.data_ptr()] = _doubled(flat, nudged=nudged) if double else flat.clone()
    base = storages[storage.data_ptr()]
    if not double and base.dtype != value.dtype:
        base = base.view(value.dtype)
    with torch.no_grad():
        made = torch.as_strided(base, value.shape, value.stride(), value.storage_offset())
    return made.detach().requires_grad_(value.requires_grad)


class Float64(TorchFunctionMode):
    """Computes with float64 wherever the program names a smaller type."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "view" and any(isinstance(each, torch.dtype) for each in (*args[1:], *kwargs.values())):
            raise _NoReferenceError("it reads the bits of a tensor as another type")
        if name in _CASTS and args and isinstance(args[0], torch.Tensor):
            return args[0].double()
        args, kwargs = pytree.tree_map(_double, (args, kwargs))
        return func(*args, **kwargs)


def _double(value: Any) -> Any:
    return _DOUBLES.get(value, value) if isinstance(value, torch.dtype) else value


def captured(script: Path) -> Call:
    """Runs the script until it calls what it compiled. Raises what the script raises before, and LookupError."""
    calls: list[Call] = []

    def compile_(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: compile_(function, **options)

        def called(*args: Any, **kwargs: Any) -> Any:
            calls.append(Call(model, options, args, kwargs))
            raise _CapturedError

        return called

    torch.compile = compile_
    try:
        runpy.run_path(str(script), run_name="__main__")
    except _CapturedError:
        return calls[0]
    finally:
        torch.compile = _REAL_COMPILE
    raise LookupError(f"{script} calls nothing that it compiled")


def results(
    call: Call, *, compiled: bool = False, double: bool = False, nudged: bool = False, seed: int = 0
) -> dict[str, Any]:
    """Name → value: outputs, gradients with ones as cotangents, and the arguments after the call."""
    function, (args, kwargs) = call.copies(double=double, nudged=nudged)
    function = _REAL_COMPILE(function, **call.options) if compiled else function
    torch.manual_seed(seed)
    modes: list[Any] = [torch.set_grad_enabled(call.gradients)]
    modes += [Float64()] if double else []
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        outputs = pytree.tree_leaves(function(*args, **kwargs))
        leaves = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        found = {f"output {number}": each for number, each in enumerate(outputs)}
        wanted = [each for each in leaves if each.requires_grad and each.is_leaf]
        roots = [each for each in outputs if isinstance(each, torch.Tensor) and each.requires_grad]
        if wanted and roots and call.gradients:
            ones = [torch.ones_like(each) for each in roots]
            gradients = torch.autograd.grad(roots, wanted, ones, allow_unused=True)
            found |= {f"gradient {number}": each for number, each in enumerate(gradients)}
    found |= {f"input {number} after the call": each for number, each in enumerate(leaves)}
    return {name: each.detach() if isinstance(each, torch.Tensor) else each for name, each in found.items()}


def other_kind(eager: Any, compiled: Any) -> str:
    """In what a result differs beside its values; "" for none. "strides" is the one that may be allowed."""
    if isinstance(eager, torch.Tensor) != isinstance(compiled, torch.Tensor):
        return "type"
    if not isinstance(eager, torch.Tensor):
        return "" if eager == compiled or eager != eager else "value"  # noqa: PLR0124 - NaN
    for name in ("dtype", "shape"):
        if getattr(eager, name) != getattr(compiled, name):
            return name
    ours, theirs = (
        [stride for size, stride in zip(each.shape, each.stride(), strict=True) if size > 1]
        for each in (eager, compiled)
    )
    return "strides" if ours != theirs and eager.numel() else ""


def compared(eager: torch.Tensor, compiled: torch.Tensor, reference: Any, nudged: Any) -> tuple[str, str]:
    """The verdict on the values of one tensor, and why. `reference`: with float64; `nudged`: of nudged arguments."""
    if _same(eager, compiled):
        return "", "equal"
    if not isinstance(reference, torch.Tensor) or reference.shape != eager.shape:
        return "unclear", "no float64 result"
    exact = not (eager.is_floating_point() or eager.is_complex())
    one, two, best = (_wide(each) for each in (eager, compiled, reference))
    odd = ~(one.isfinite() & two.isfinite() & best.isfinite())
    agree = (one == best) | (one.isnan() & best.isnan())
    if (odd & ((one.isfinite() & best.isfinite()) | agree) & ~((two == one) | (two.isnan() & one.isnan()))).any():
        return "confirmed", "infinite or NaN where eager and float64 agree on another value"
    usable = ~odd
    if not usable.any():
        return "unclear", "eager and float64 disagree wherever the results differ"
    off = nudged if isinstance(nudged, torch.Tensor) and nudged.shape == eager.shape else reference
    one, two, best, three = (each[usable] for each in (one, two, best, _wide(off)))
    ours, theirs, moved = ((each - best).abs().nan_to_num() for each in (one, two, three))
    if exact:
        if (theirs.bool() & ~ours.bool() & ~moved.bool()).any():
            return "confirmed", "integers differ where eager's are those of float64"
        return ("unclear", "integers differ") if theirs.any() else ("false alarm", "integers are those of float64")
    unit = max(torch.finfo(eager.dtype).eps, 1e-9)  # float64 is no better reference for its own programs
    floor = torch.maximum(ours.max(), unit * best.abs().max()).clamp_min(torch.finfo(eager.dtype).tiny)
    ratio = (theirs.max() / floor).item()
    single = (theirs / (ours + unit * best.abs()).clamp_min(torch.finfo(eager.dtype).tiny)).max().item()
    text = f"{ratio:.3g} times as far from float64 as eager, {single:.3g} times in one element"
    if ratio > WIDE:
        if theirs.max() <= WIDE * moved.max():
            return "unclear", f"{text}, and a change of the arguments by one unit changes the result as much"
        return "confirmed", text
    return ("unclear", text) if ratio > NEAR or single > WIDE_ELEMENT else ("false alarm", text)


def _wide(value: torch.Tensor) -> torch.Tensor:
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    return value.to(torch.float64)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    ours, theirs = _wide(one), _wide(other)
    return bool(((ours == theirs) | (ours.isnan() & theirs.isnan())).all())


def _draws(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two runs of eager with other seeds differ."""
    return any(
        isinstance(each, torch.Tensor) and (each.shape != other[name].shape or not _same(each, other[name]))
        for name, each in one.items()
    )


def _compiled(call: Call) -> Iterator[tuple[str, Any]]:
    """Results, or the error, with the script's options and then without fullgraph if that was refused."""
    try:
        yield "", results(call, compiled=True)
    except Exception as error:  # noqa: BLE001 - any error is what is looked for
        yield _text(error), error
        if call.options.pop("fullgraph", False) and type(error).__module__.startswith("torch._dynamo"):
            torch.compiler.reset()
            try:
                yield "", results(call, compiled=True)
            except Exception as again:  # noqa: BLE001
                yield _text(again), again


def judged(script: Path, note: Callable[[str], None]) -> dict[str, str]:
    try:
        call = captured(script)
    except LookupError as error:
        return _verdict("unclear", str(error))
    except BaseException as error:  # noqa: BLE001 - a script may also exit
        return _verdict("false alarm", f"eager raises too, or the script is wrong: {_text(error)}")
    try:
        eager, second = results(call), results(call, seed=1)
    except Exception as error:  # noqa: BLE001
        return _verdict("unclear", f"eager raises {_text(error)}")
    draws = _draws(eager, second)
    note("eager")
    references: list[dict[str, Any]] = []
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with contextlib.suppress(Exception):
        references = [results(call, double=True, nudged=nudged) for nudged in (False, True)]
    torch.set_default_dtype(default)
    note("compiled")
    attempts = list(_compiled(call))
    problem, got = attempts[-1]
    if problem:
        return _verdict("confirmed", f"compiled raises where eager runs: {problem}", "raises", problem)
    if len(attempts) > 1:
        return _verdict("false alarm", f"only fullgraph=True is refused: {attempts[0][0]}")
    return _of_results(eager, got, references or [{}, {}], draws=draws)


def _of_results(
    eager: dict[str, Any], got: dict[str, Any], references: list[dict[str, Any]], *, draws: bool
) -> dict[str, str]:
    if list(eager) != list(got):
        return _verdict("confirmed", "the compiled program has other outputs", "structure")
    found: list[tuple[str, str, str]] = []
    for name, ours in eager.items():
        theirs = got[name]
        if kind := other_kind(ours, theirs):
            sure = kind != "strides" and not (draws and kind in ("value", "shape"))
            found.append(("confirmed" if sure else "unclear", f"{name}: {kind} differs", kind))
            if kind != "strides":
                continue
        if isinstance(ours, torch.Tensor):
            verdict, why = compared(ours, theirs, *(each.get(name) for each in references))
            if draws and verdict:
                verdict, why = "false alarm", "the program draws random numbers"
            found += [(verdict, f"{name}: {why}", "values")] if verdict else []
    for wanted in ("confirmed", "unclear", "false alarm"):
        if chosen := [each for each in found if each[0] == wanted]:
            return _verdict(wanted, "; ".join(each[1] for each in chosen[:3]), chosen[0][2])
    return _verdict("false alarm", "the compiled results are equal to eager's")


def _text(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if ": error: " in line] or lines  # of the C++ compiler
    return f"{type(error).__name__}: {' '.join(lines[:2])[:400]}"


def _verdict(verdict: str, reason: str, kind: str = "", error: str = "") -> dict[str, str]:
    return {"stage": "done", "verdict": verdict, "reason": reason, "kind": kind, "error": error}


def main(words: Sequence[str]) -> None:
    script, target = Path(words[0]).resolve(), Path(words[1]).resolve()
    os.chdir(script.parent)
    sys.argv = [str(script)]

    def note(stage: str) -> None:
        target.write_text(json.dumps({"stage": stage}), encoding="utf-8")

    note("script")
    found = judged(script, note)
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
