"""A pasted function, compiled by `show` in a process of its own: a crash or an endless loop ends that process alone."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import ConformanceError

#: Seconds that one target may take.
PATIENCE = 300.0
#: Characters of what one target gives: more would not help anybody.
_LONGEST = 2_000_000


class PastedError(ConformanceError, ValueError):
    """What was pasted is no function, or an unknown target or part is named."""


@dataclass(frozen=True)
class Compiled:
    """`text`: what `show` printed. `problem`: what it said on stderr, such as why there is no code."""

    target: str
    text: str
    problem: str


class Compiling:
    """Compiles pasted functions, and ends what still runs when it is closed. `root`: the folder of the project."""

    def __init__(self, root: Path, options: Sequence[str] = ()) -> None:
        self._root, self._options = root, list(options)
        self._running: set[subprocess.Popen[str]] = set()
        self._closed = False

    def compile(
        self, code: str, inputs: Sequence[str], targets: Sequence[str], parts: Collection[str]
    ) -> list[Compiled]:
        """Compiles a function for each target, one after the other. `parts`: those of `show`. Raises PastedError."""
        if any("\0" in each for each in inputs):
            raise PastedError("an input has a zero byte")
        with tempfile.TemporaryDirectory(prefix="conformance-view-") as folder:
            word = function_word(code, Path(folder, "pasted.py"))
            options = [*self._options, *(f"--input={each}" for each in inputs), *(f"--{part}" for part in parts)]
            return [self._shown(word, target, options) for target in targets if not self._closed]

    def close(self) -> None:
        self._closed = True
        for process in list(self._running):
            _kill(process)

    def _shown(self, word: str, target: str, options: Sequence[str]) -> Compiled:
        command = [sys.executable, "-m", "conformance", "show", "--target", target, *options, "--", word]
        with subprocess.Popen(
            command,
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
        ) as process:
            self._running.add(process)
            try:
                text, problem = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                _kill(process)
                return Compiled(target, "", f"it did not end within {PATIENCE:.0f} s")
            finally:
                self._running.discard(process)
        if process.returncode < 0:
            problem += f"\nthe process ended by the signal {signal.Signals(-process.returncode).name}"
        cut = "\n… the rest is left out" if len(text) > _LONGEST else ""
        return Compiled(target, text[:_LONGEST] + cut, problem.strip())


def function_word(code: str, file: Path) -> str:
    """The word that names a pasted function for `show`: the lambda, or the last function or module of the file.

    Writes `file`, unless a lambda was pasted. Raises PastedError.
    """
    try:
        tree = ast.parse(code.strip())
    except SyntaxError as error:
        raise PastedError(f"this is no Python: line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # a zero byte, or too many brackets
        raise PastedError(f"this is no Python: {error or 'it is nested too deeply'}") from None
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Lambda) and len(tree.body) == 1:
        return ast.unparse(last.value)
    named = [each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.ClassDef))]
    if not named:
        raise PastedError(
            "paste a lambda, such as `lambda x: x.flip(-1)`, or Python with a function; the last one is compiled"
        )
    file.write_text(code.strip() + "\n", encoding="utf-8")
    return f"{file}:{named[-1].name}{'()' if isinstance(named[-1], ast.ClassDef) else ''}"


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
