"""The reference: public names from their docstrings, commands and options from their parsers, examples to execute."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import conformance
from conformance.cli.main import COMMANDS
from conformance.harness.configuration.pytest_options import OPTIONS
from conformance.settings import long_name

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


def write_reference(source: Path) -> None:
    """Writes the pages below reference/, and that of the executed examples."""
    for name, text in (
        ("reference/names.md", _names()),
        ("reference/command-line.md", _commands()),
        ("reference/pytest-options.md", _options()),
        ("examples/executed.md", _examples()),
    ):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _names() -> str:
    lines = ["# Public names", "", "What `from conformance import …` gives, from the docstrings.", ""]
    for name in conformance.__all__:
        value = getattr(conformance, name)
        lines += [f"## {name}", ""]
        if callable(value):
            lines += ["```python", f"{name}{inspect.signature(value)}", "```", ""]
            lines += ["```text", inspect.getdoc(value) or "", "```", ""]
        else:
            lines += ["```python", f"{name} = {value!r}", "```", ""]
    return "\n".join(lines)


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
    for name, keywords in OPTIONS.items():
        value = keywords.get("metavar") or "|".join(keywords.get("choices", ()))
        text = str(keywords["help"]).replace("|", "\\|")
        lines.append(f"| `{long_name(name)}{' ' if value else ''}{value}` | {text} |".replace("|`", "\\|`"))
    return "\n".join(lines) + "\n"


def _examples() -> str:
    lines = ["# Commands and what they print", "", "The build of this site executed these commands.", ""]
    for question, command in EXAMPLES.items():
        lines += [f"## {question}", "", f"```{{command-output}} {command}", ":cwd: /checkout", "```", ""]
    return "\n".join(lines)
