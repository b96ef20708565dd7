"""Writes `reproduce.py`: a case's function with the inputs of its failing calls, or a script that needs conformance."""

from __future__ import annotations

import ast
import contextlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from conformance.capture.compiler_options import split_options
from conformance.cases.case import Case
from conformance.cases.other_inputs import variant
from conformance.devices.targets import Target
from conformance.harness.reproduction.case_text import CaseText, case_text
from conformance.harness.reproduction.module_text import NotSelfContainedError
from conformance.numerics.problem import NEXT_CALL, OF_THE_DECLARATION, ORDINARY_CALLS, Problem
from conformance.settings import config_text

NAME, WITH_SUITE, INPUTS = "reproduce.py", "reproduce_with_suite.py", "inputs.pt"
#: Inductor's cache would hide a change of Inductor.
_NO_CACHES = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
#: The modules whose text is a part of the script, and what they import.
_COPIED = ("calls", "tolerance", "differences", "main")
_IMPORTS = (
    "import contextlib",
    "import copy",
    "import dataclasses",
    "import platform",
    "import sys",
    "from pathlib import Path",
    "import torch",
)


def write(
    folder: Path,
    case: Case,
    target: Target,
    *,
    error: BaseException | None,
    native: bool,
    chosen: Mapping[str, Any] | None = None,
) -> str:
    """Writes the script of a failing item, and what it reads, into the folder. Returns a line that says how to run it.

    `error`: what compiling or the numerics check raised; None for a failure of the suite's other checks. `native`:
    whether the code ran on its own device. `chosen`: those options of the case that the run laid over its own.
    """
    with_suite = suite_script(case, target, chosen or {})
    try:
        failing, problems = _of_other_inputs(case, failed_problems(error))
        text = case_text(failing)
        save_inputs(folder / INPUTS, failing, target, problems, native=native)
    except NotSelfContainedError as reason:
        (folder / NAME).write_text(f"# This script needs conformance: {reason}.\n{with_suite}", encoding="utf-8")
        return f"to reproduce: python {folder / NAME} (it needs conformance: {reason})"
    (folder / NAME).write_text(script(case, target, text, native=native), encoding="utf-8")
    (folder / WITH_SUITE).write_text(with_suite, encoding="utf-8")
    if native:
        return f"to reproduce with torch alone: python {folder / NAME}"
    device = target.description if target.device == "cpu" else f"a real GPU ({target.device})"
    return f"to reproduce: python {folder / WITH_SUITE} (with torch alone, on {device}: {NAME} beside it)"


def failed_problems(error: BaseException | None) -> Sequence[Problem]:
    """The problems of a numerics check. Another exception may come from either ordinary call.

    Raises NotSelfContainedError for a failure of another check (None), where the case's declaration is wrong, and where
    the suite must count recompiles.
    """
    if error is None:
        raise NotSelfContainedError("the failure is not one of the numerics, and only the suite finds it")
    problems: Sequence[Problem] = getattr(error, "problems", ())
    problems = problems or [Problem("", "raises", "", call) for call in ORDINARY_CALLS]
    problems = [problem for problem in problems if problem.rule not in OF_THE_DECLARATION]
    if problems and all(problem.call == NEXT_CALL for problem in problems):
        raise NotSelfContainedError("only the suite calls again with what a call left in the module")
    problems = [problem for problem in problems if problem.call != NEXT_CALL]
    if all(problem.rule == "recompiles" for problem in problems):
        raise NotSelfContainedError("only the suite counts recompiles and checks the case's declaration")
    return problems


def _of_other_inputs(case: Case, problems: Sequence[Problem]) -> tuple[Case, Sequence[Problem]]:
    """The variant of the case that fails first, and its problems as those of a first call; else both as they are."""
    if (other := variant(case, problems[0].call)) is None:
        return case, problems
    mine = [problem for problem in problems if problem.call == other.name]
    return other.case, [replace(problem, call=ORDINARY_CALLS[0]) for problem in mine]


def save_inputs(file: Path, case: Case, target: Target, problems: Sequence[Problem], *, native: bool) -> None:
    """Saves the first call and the failing calls. Raises NotSelfContainedError where eager does not run here."""
    import torch

    from conformance.numerics.limits import failing_calls

    try:
        found = failing_calls(case, target.name, target.device if native else "cpu", problems)
    except Exception as error:
        raise NotSelfContainedError(
            f"eager cannot run again here: {type(error).__name__}: {error}".splitlines()[0]
        ) from error
    torch.save(found, file)


def suite_script(case: Case, target: Target, chosen: Mapping[str, Any] | None = None) -> str:
    """A script that compiles the case for the target with this package. `chosen`: options over those of the case."""
    words = [f"{case.file}::{case.id}", "--target", target.name, "--numerics", *_config_words(chosen)]
    return f'''"""Compiles {case.id} for {target.name}, shows facts and code, and checks the numerics where it runs.

For the smallest program that fails in the same way, and the part of the compiler that makes it wrong:
{minimise_command(case, target, chosen=chosen)}
"""

import sys

from conformance.cli.main import main

sys.exit(main({json.dumps(["show", *words])}))
'''


def _config_words(chosen: Mapping[str, Any] | None) -> list[str]:
    """The options of `show` and `minimise` that lay options of the compiler over those of a case."""
    return [word for name, value in (chosen or {}).items() for word in ("--config", config_text({name: value}))]


def minimise_command(
    case: Case, target: Target, problems: Sequence[Problem] = (), chosen: Mapping[str, Any] | None = None
) -> str:
    """The command that minimises a failing case. `problems`: it takes the call of the first one.

    `chosen`: options of the compiler over those of the case.
    """
    call = next((problem.call for problem in problems if problem.rule != "recompiles"), "")
    command = f"python -m conformance minimise {shlex.quote(f'{case.file}::{case.id}')} --target {target.name}"
    command = " ".join([command, *map(shlex.quote, _config_words(chosen))])
    return f"{command} --call {shlex.quote(call)}" if call not in ("", ORDINARY_CALLS[0]) else command


def script(case: Case, target: Target, text: CaseText, *, native: bool) -> str:
    """The text of the script that needs only torch."""
    import torch

    items = "".join(f"        {name!r}: {value},\n" for name, value in text.arguments.items())
    modules = "".join(f"    {path!r}: {value},\n" for path, value in text.modules.items())
    parts = [
        f'"""{case.id} for {target.name}, torch {torch.__version__}: eager and compiled, without the suite.\n',
        _needs(target, native=native),
        "Ends with an AssertionError and status 1 if compiled still differs from eager as it did, else with status 0.",
        f"{INPUTS} must be beside it: it holds the calls.",
        '"""\n',
        *dict.fromkeys((*_IMPORTS, *text.imports)),
        "",
        text.statements,
        f"\n\n{text.function}\n\n",
        *([f"MODULES = {{\n{modules}}}\n\n"] if modules else []),
        f"def arguments(tensors):\n    return {{\n{items}    }}",
        *[f"\n\n{_definitions(module)}" for module in _COPIED],
        '\nif __name__ == "__main__":',
        *_options(case, target),
        f"    reproduce({text.name}, arguments, {_arguments(case, target)})\n",
    ]
    return "\n".join(parts)


def _definitions(module: str) -> str:
    """The text of a module of standalone/, without its docstring and imports."""
    source = (resources.files(__package__) / "standalone" / f"{module}.py").read_text(encoding="utf-8")
    imports = [each for each in ast.parse(source).body if isinstance(each, (ast.Import, ast.ImportFrom))]
    return "\n".join(source.splitlines()[imports[-1].lineno :]).strip()


def _arguments(case: Case, target: Target) -> str:
    isa = target.isa if target.device == "cpu" else ""
    return f'"{target.device}", isa="{isa}", dynamic={case.dynamic}, mode="{case.mode}"'


def _needs(target: Target, *, native: bool) -> str:
    if target.device == "cpu":
        needs = f"Needs torch, a C++ compiler and a CPU like {target.description}."
    else:
        needs = f"Needs torch, Triton and a real GPU ({target.device}) like {target.description}."
    return needs if native else f"{needs}\nThe suite found the failure without one: {WITH_SUITE} shows it so."


def _options(case: Case, target: Target) -> list[str]:
    """The lines that set the compiler's options, as the suite does where it matters for the result."""
    inductor, dynamo = split_options(case.config)
    chosen: dict[str, Any] = dict(_NO_CACHES)
    if target.device == "cpu":
        chosen |= {"cpp.threads": target.threads} | target.simd_options
    specialised = {"specialize_float": True, "specialize_int": True} if case.dynamic else {}
    modules: Mapping[str, Mapping[str, Any]] = {
        "torch._inductor": chosen | inductor,
        "torch._dynamo": specialised | dynamo,
        "torch._functorch": {"enable_autograd_cache": False, "force_non_lazy_backward_lowering": True},
    }
    lines = []
    for module, options in modules.items():
        for name, value in options.items():
            if _has_option(module, name):
                lines += [f"    {module}.config.{name} = {value!r}"]
    return [f"    import {module}.config" for module in modules] + lines


def _has_option(module: str, name: str) -> bool:
    import importlib

    config: Any = importlib.import_module(f"{module}.config")
    with contextlib.suppress(AttributeError):
        for part in name.split("."):
            config = getattr(config, part)
        return True
    return False
