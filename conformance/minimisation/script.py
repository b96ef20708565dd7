"""Writes a minimised program as a script that needs torch alone and ends with an AssertionError while it fails.

Small tensors are written as numbers. Larger ones go into a file beside the script.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.capture.compiler_options import FALLBACK
from conformance.containers import copy_to
from conformance.errors import ConformanceError
from conformance.minimisation.input_reduction import is_uniform
from conformance.minimisation.minimiser import Minimised
from conformance.minimisation.program import Program

#: Tensors of more elements go into a file.
WRITTEN = 64
#: Seconds for one run of the script.
_LIMIT = 300
_ATTRIBUTES = {
    "dtype": "dtype",
    "shape": "shape",
    "device": "device",
    "requires_grad": "requires_grad",
    "strides": "stride()",
    "storage offset": "storage_offset()",
}


class ScriptError(ConformanceError, OSError):
    """The script cannot be written."""


@dataclass(frozen=True)
class Written:
    """`file`: the script. `shows`: whether it ended with an AssertionError when it was run; None: it was not run.
    `last`: the last line that it wrote.
    """

    file: Path
    shows: bool | None
    last: str


def write(
    file: Path,
    minimised: Minimised,
    title: str,
    *,
    device: str,
    options: Mapping[str, Any],
    dynamic: bool = False,
) -> Written:
    """Writes the script and runs it. `options`: of Inductor, written if the script does not fail without them, or does
    not run. `dynamic`: compile for any size.

    It does not run for a `device` that is not here. Raises ScriptError.
    """
    import torch

    runs = device == "cpu" or getattr(torch, device).is_available()
    last = ""
    needed = {name: value for name, value in options.items() if name == FALLBACK}
    for chosen in [needed, dict(options)] if dict(options) != needed and runs else [dict(options)]:
        for tolerance in _tolerances(minimised):
            _write(file, minimised, title, device, chosen, tolerance, dynamic=dynamic)
            if not runs:
                return Written(file, None, f"this machine has no {device}")
            shows, last = run(file)
            if shows:
                return Written(file, True, last)
    return Written(file, False, last)


def run(file: Path) -> tuple[bool, str]:
    """Whether a script ends with an AssertionError, and the first line of its error."""
    environment = os.environ | {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
    try:
        done = subprocess.run(
            [sys.executable, file.name],
            cwd=file.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"it still ran after {_LIMIT} s"
    lines = [line for line in done.stderr.splitlines() if line.startswith("AssertionError")]
    last = lines[-1] if lines else (done.stderr.strip().splitlines() or ["it ends without an error"])[-1]
    return bool(lines) and done.returncode == 1, last


def _tolerances(minimised: Minimised) -> Iterator[str]:
    """The default ones, then a quarter of the error."""
    yield ""
    values = minimised.problem.wrong_values
    if values is not None and values.off_by:
        yield f", rtol=0, atol={values.off_by / 4:.3g}"


def _write(
    file: Path,
    minimised: Minimised,
    title: str,
    device: str,
    options: Mapping[str, Any],
    tolerance: str,
    *,
    dynamic: bool,
) -> None:
    program = minimised.program
    saved = {name: value for name, value in program.inputs.items() if not _is_written(value)}
    beside = file.with_suffix(".pt")
    text = program.text
    setting = [f"torch._inductor.config.{name} = {value!r}" for name, value in options.items()]
    load = [f"saved = torch.load({beside.name!r})  # beside this script"] if saved else []
    inputs = [f"{name} = {_tensor_text(name, value, device, saved)}" for name, value in program.inputs.items()]
    setup = list(_calls(program, dynamic=dynamic, draws=FALLBACK in options))
    body = "\n".join([*_check(minimised, tolerance)])
    if setup:
        body = body.replace("torch.compile(program)", "compiled")
    elif dynamic:
        body = body.replace("torch.compile(program)", "torch.compile(program, dynamic=True)")
    lines_of_check = "\n".join([*setup, *load, *inputs, "", body])
    if program.is_called_again:  # what follows does not run where the file is imported
        lines_of_check = 'if __name__ == "__main__":\n' + textwrap.indent(lines_of_check, "    ")
    head = text.partition("\n\n\n")
    imports = sorted(
        {*head[0].splitlines(), *_literal_imports(inputs)}, key=lambda line: (line != "import operator", line)
    )
    more = ["import torch._inductor.config"] if options else []
    more += ["import importlib.util", "import sys"] if program.is_called_again else []
    lines = [
        f"# {title}",
        "# Ends with an AssertionError while the compiled program is wrong.",
        *imports,
        *more,
        *setting,
    ]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if saved:
            import torch

            torch.save({name: value.detach() for name, value in saved.items()}, beside)
        file.write_text(
            "\n".join(lines) + "\n\n\n" + head[2].rstrip() + "\n\n\n" + lines_of_check + "\n",
            encoding="utf-8",
        )
    except OSError as error:
        raise ScriptError(f"{file} cannot be written: {error.strerror or error}") from error


def _calls(program: Program, *, dynamic: bool, draws: bool) -> Iterator[str]:
    """The lines that define `compiled` and `program` anew, where one call does not show the failure."""
    seed = ["torch.manual_seed(0)"] if draws else []
    names = ", ".join(program.inputs)
    copies = ", ".join(f"{name}.clone()" for name in program.inputs)
    if program.is_called_again:
        yield from (
            "def flat(result):",
            "    return result if isinstance(result, tuple) else (result,)",
            "",
            "",
            "def calls(compile):",
            "    # each has a module of its own, with the state that this file begins with",
            '    spec = importlib.util.spec_from_file_location("fresh", __file__)',
            '    fresh = sys.modules["fresh"] = importlib.util.module_from_spec(spec)',
            "    spec.loader.exec_module(fresh)",
            "    fn = compile(fresh.program)",
            "",
            f"    def run({names}):",
            *(f"        {line}" for line in seed),
            f"        first = [{copies}]",
            "        results = [each.detach() for each in (*flat(fn(*first)), *first)]",
            f"        second = fresh.between({copies})",
        )
        place = "        "
        if program.context:
            yield f"{place}with fresh.context():"
            place += "    "
        yield from (f"{place}return (*results, *flat(fn(*second)), *second)", "", "    return run", "", "")
        compiled = "lambda fn: torch.compile(fn, dynamic=True)" if dynamic else "torch.compile"
        yield f"compiled, program = calls({compiled}), calls(lambda fn: fn)"
    elif draws:
        yield from ("def seeded(fn):", "    def run(*inputs):", *(f"        {line}" for line in seed))
        yield from ("        return fn(*inputs)", "", "    return run", "", "")
        options = ", dynamic=True" if dynamic else ""
        yield f"compiled, program = seeded(torch.compile(program{options})), seeded(program)"


def _literal_imports(inputs: Sequence[str]) -> list[str]:
    names = [name for name in ("inf", "nan") if any(name in text for text in inputs)]
    return [f"from math import {', '.join(names)}"] if names else []


def _is_written(value: Any) -> bool:
    if value.is_complex() and not value.detach().isfinite().all():
        return False  # Python's text of such a number is no expression: (nan+infj)
    return value.numel() <= WRITTEN or _fill(value) is not None


def _fill(value: Any) -> Any:
    """The number that all elements are, or None."""
    flat = value.detach().reshape(-1)
    if flat.numel() < 2 or not is_uniform(flat):
        return None
    return flat[0].item()


def _tensor_text(name: str, value: Any, device: str, saved: Mapping[str, Any]) -> str:
    where = "" if device == "cpu" else f", device={device!r}"
    if name in saved:
        text = f"saved[{name!r}]" + (f".to({device!r})" if where else "")
        return text + (".requires_grad_()" if value.requires_grad else "")
    dtype = "" if str(value.dtype) == "torch.float32" else f", dtype={value.dtype}"
    shape = tuple(value.shape)
    fill = _fill(value)
    if fill is not None:
        default = {"torch.float32": float, "torch.int64": int, "torch.bool": bool}.get(str(value.dtype))
        dtype = "" if default is type(fill) else f", dtype={value.dtype}"
        text = f"torch.full({shape}, {fill!r}{dtype}{where})"
    elif not value.numel():
        text = f"torch.empty({shape}{dtype}{where})"
    else:
        text = f"torch.tensor({value.detach().tolist()!r}{dtype}{where})"
    if value.storage_offset() and value.numel():
        size = value.untyped_storage().nbytes() // value.element_size()
        whole = f"torch.zeros({size}, dtype={value.dtype}{where})"
        text = f"{whole}.as_strided({shape}, {value.stride()}, {value.storage_offset()}).copy_({text})"
    elif not value.is_contiguous():
        text = f"torch.empty_strided({shape}, {value.stride()}{dtype or f', dtype={value.dtype}'}{where}).copy_({text})"
    return text + (".requires_grad_()" if value.requires_grad else "")


def _check(minimised: Minimised, tolerance: str) -> Iterator[str]:
    """The lines that compare. The names of the program's inputs are known."""
    problem, program = minimised.problem, minimised.program
    names = ", ".join(program.inputs)
    kind = minimised.failure.kinds
    if problem.rule == "raises":
        yield from _check_of_exceptions(minimised, names)
        return
    if kind == ("gradient",):
        yield from _gradient_function(program, problem.tensor)
        got, eager = "gradient(torch.compile(program))", "gradient(program)"
    elif kind == ("input",):
        name = problem.tensor.partition(" after")[0].partition(",")[0]
        yield "def after(fn):"
        copies = ", ".join(f"{each}.clone()" for each in program.inputs)
        yield f"    {names}{',' if len(program.inputs) == 1 else ''} = given = [{copies}]"
        yield "    fn(*given)"
        yield f"    return {name}"
        yield ""
        yield ""
        got, eager = "after(torch.compile(program))", "after(program)"
    else:
        place = problem.tensor.partition(", ")[0].removeprefix("output")
        given = names
        if _writes_to_inputs(program):  # the second call needs what the first one was given
            given = ", ".join(f"{name}.detach().clone()" for name in program.inputs)
        got, eager = f"torch.compile(program)({given}){place}", f"program({given}){place}"
    if problem.rule == "aliasing":
        one, _, other = problem.tensor.partition(", ")
        yield from _check_of_aliasing(names, one, other)
    elif attribute := _ATTRIBUTES.get(problem.rule):
        yield f"got, eager = {got}, {eager}"
        yield f"assert got.{attribute} == eager.{attribute}, (got.{attribute}, eager.{attribute})"
    elif problem.rule in ("gradient", "constant", "structure"):
        yield f"got, eager = {got}, {eager}"
        yield "assert type(got) is type(eager) and (isinstance(got, torch.Tensor) or got == eager), (got, eager)"
    else:
        yield f"torch.testing.assert_close({got}, {eager}, equal_nan=True{tolerance})"


def _writes_to_inputs(program: Program) -> bool:
    import torch

    given = copy_to({name: value.detach() for name, value in program.inputs.items()}, "cpu")
    with contextlib.suppress(Exception):  # a program may be one that raises
        program.function(**given)
    return not all(
        torch.equal(value.detach().nan_to_num(), given[name].nan_to_num()) for name, value in program.inputs.items()
    )


def _check_of_aliasing(names: str, one: str, other: str) -> Iterator[str]:
    def place(name: str) -> str:
        return f"result{name.removeprefix('output')}" if name.startswith("output") else name

    yield "def shares(fn):"
    yield f"    result = fn({names})"
    yield f"    return {place(one)}.untyped_storage().data_ptr() == {place(other)}.untyped_storage().data_ptr()"
    yield ""
    yield ""
    yield "assert shares(torch.compile(program)) == shares(program)"


def _gradient_function(program: Program, tensor: str) -> Iterator[str]:
    """The gradient of one input, with ones as cotangents."""
    names = ", ".join(program.inputs)
    yield "def gradient(fn):"
    yield f"    result = fn({names})"
    yield "    outputs = [each for each in (result if isinstance(result, tuple) else (result,)) if each.requires_grad]"
    yield "    cotangents = [torch.ones(each.shape, dtype=each.dtype, device=each.device) for each in outputs]"
    name = tensor.removeprefix("gradient of ")
    yield f"    return torch.autograd.grad(outputs, {name}, cotangents, allow_unused=True)[0]"
    yield ""
    yield ""


def _check_of_exceptions(minimised: Minimised, names: str) -> Iterator[str]:
    if not minimised.raises:
        backward = any(value.requires_grad for value in minimised.program.inputs.values())
        yield f"program({names})  # eager does not raise"
        yield "try:"
        yield f"    result = torch.compile(program)({names})"
        if backward:
            yield "    for each in result if isinstance(result, tuple) else (result,):"
            yield "        each.sum().backward(retain_graph=True)"
        yield "except Exception as error:"
        yield '    raise AssertionError("compiled raises") from error'
        return
    yield "for fn in (program, torch.compile(program)):"
    yield "    try:"
    yield f"        fn({names})"
    yield "    except Exception as error:"
    yield f'        if "{minimised.raises}" in [kind.__name__ for kind in type(error).__mro__]:'
    yield "            continue"
    yield f'        raise AssertionError("raises another exception than {minimised.raises}") from error'
    yield f'    raise AssertionError("does not raise {minimised.raises}")'
