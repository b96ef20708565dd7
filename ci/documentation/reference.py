"""The reference: public names from their docstrings, commands and options from their parsers, examples to execute."""

from __future__ import annotations

import ast
import inspect
import os
import pprint
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from written_parts import option_rows

import conformance
from conformance.cli.main import COMMANDS

#: Characters of a line of code.
_WIDTH = 90
#: Commands whose output the site shows. The build executes them.
EXAMPLES = {
    "Which cases are there of flips?": "python -m conformance list 'flip/hflip-256*'",
    "Why is the flip of bytes slow on a CPU?": (
        "python -m conformance show flip/hflip-224-u8-contiguous --target cpu_avx512 --why"
    ),
    "What is generated for a GPU that is not here?": (
        "python -m conformance show 'lambda x: x.flip(-1)' --input x=1x3x224x224:u8 --target cuda_sm90"
    ),
    "What differs between two GPUs?": "python -m conformance compare flip/hflip-224-u8-contiguous cuda_sm90 xpu_pvc",
    "What does the documentation say of seeds?": "python -m conformance docs numerics#seeds",
}


def write_reference(source: Path, *, executes: bool = True) -> None:
    """Writes the pages below reference/, and that of the executed examples. Without `executes` it shows no output."""
    for name, text in (
        ("reference/names.md", _names()),
        ("reference/command-line.md", _commands()),
        ("reference/pytest-options.md", _options()),
        ("examples/executed.md", _examples(executes)),
    ):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _names() -> str:
    lines = ["# Docstrings of the public names", "", "What `from conformance import …` gives.", ""]
    for name in conformance.__all__:
        value = getattr(conformance, name)
        lines += [f"## {name}", ""]
        if callable(value):
            lines += ["```python", _signature(name, value), "```", "", _markdown(inspect.getdoc(value) or ""), ""]
        else:
            lines += ["```python", f"{name} = {pprint.pformat(value, width=_WIDTH)}", "```", ""]
    return "\n".join(lines)


def _signature(name: str, value: Callable[..., Any]) -> str:
    """A signature, with one parameter a line if it is long. Annotations are text in this package: without quotes."""
    if isinstance(value, type) and issubclass(value, Exception) and not inspect.isfunction(value.__init__):
        return f"{name}(message: str)"
    signature = inspect.signature(value)
    parameters = [_with_texts(parameter) for parameter in signature.parameters.values()]
    returned = signature.return_annotation
    short = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    after = f" -> {_Text(returned)!r}" if returned is not signature.empty else ""
    if len(name + short + after) <= _WIDTH:
        return f"{name}{short}{after}"
    lines = _parameter_lines(parameters)
    return "\n".join([f"{name}(", *(f"    {line}," for line in lines), f"){after}"])


def _with_texts(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter whose annotation and default are shown as Python."""
    if parameter.annotation is not parameter.empty:
        parameter = parameter.replace(annotation=_Text(parameter.annotation))
    return parameter if parameter.default is parameter.empty else parameter.replace(default=_Default(parameter.default))


def _parameter_lines(parameters: Sequence[inspect.Parameter]) -> list[str]:
    lines, is_marked = [], False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            is_marked = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not is_marked:
            lines.append("*")
            is_marked = True
        lines.append(str(parameter))
    return lines


class _Text:
    """An annotation that a signature shows without quotes."""

    def __init__(self, annotation: object) -> None:
        self._text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    def __repr__(self) -> str:
        return self._text


class _Default:
    """A default as Python: a function or class by its name, and what has no text of its own as an ellipsis."""

    def __init__(self, value: object) -> None:
        self._text = repr(value)
        try:
            ast.parse(self._text, mode="eval")
        except SyntaxError:  # such as <class 'list'>, and <factory> of a dataclass
            self._text = getattr(value, "__name__", "...")

    def __repr__(self) -> str:
        return self._text


def _markdown(docstring: str) -> str:
    """A docstring as Markdown: it has code in backticks and indented blocks already.

    A line that begins with "`parameter`: " becomes an entry of a list. Angle brackets are no HTML.
    """
    parts = re.split(r"(`[^`\n]*`|^(?: {4}.*\n?)+)", docstring, flags=re.MULTILINE)
    parts[::2] = [re.sub(r"([<*\[\]#])", r"\\\1", part) for part in parts[::2]]
    return re.sub(r"^(`[^`\n]+`(?:, `[^`\n]+`)*: )", r"- \1", "".join(parts), flags=re.MULTILINE)


def _commands() -> str:
    lines = ["# The command line", ""]
    for name in COMMANDS:
        lines += [f"## {name}", "", "```text", _help(name), "```", ""]
    return "\n".join(lines)


def _help(command: str) -> str:
    words = [sys.executable, "-m", "conformance", command, "--help"]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.rstrip()


def _options() -> str:
    lines = ["# Options of pytest", ""]
    lines += [
        "`--device` is short for `--conformance-device`, and so on, where nobody else has an option `--device`.",
        "",
    ]
    lines += ["| option | |", "|---|---|"]
    lines += option_rows(are_long=True)
    return "\n".join(lines) + "\n"


def _examples(executes: bool) -> str:
    lines = ["# Commands and what they print", "", "The build of this site executed these commands.", ""]
    for question, command in EXAMPLES.items():
        shown = [f"```{{command-output}} {command}", ":cwd: /checkout"] if executes else ["```", command]
        lines += [f"## {question}", "", *shown, "```", ""]
    return "\n".join(lines)
