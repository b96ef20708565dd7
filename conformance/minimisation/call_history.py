"""Programs whose second call depends on the first one, or on what changed between them: state of Python, guards.

Eager and compiled each get the module of the program anew, so neither sees what the other has left in it.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

#: Function → the function that is called.
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
_numbers = itertools.count()


def two_calls(text: str, compile_: Compile) -> Callable[..., tuple[Any, ...]]:
    """A function of the inputs: results of the first call, its inputs after it, and the same of the second call.

    `text`: of a program with the functions `program` and `between`, and perhaps `context`; see program.py. Each call
    gets copies of the inputs. What the first call returns is detached, because its backward would come after the
    change.
    """
    code = compile(text, "program.py", "exec")

    def program(**inputs: Any) -> tuple[Any, ...]:
        module = types.ModuleType(f"program_{next(_numbers)}")
        sys.modules[module.__name__] = module  # Dynamo imports it by its name
        names = vars(module)
        exec(code, names)  # noqa: S102 - written by program.py
        function = compile_(names["program"])
        first = {name: value.clone() for name, value in inputs.items()}
        results = [_detached(value) for value in (*_flat(function(**first)), *first.values())]
        changed = names["between"](**{name: value.clone() for name, value in inputs.items()})
        second = dict(zip(inputs, changed, strict=True))
        with names.get("context", contextlib.nullcontext)():
            return (*results, *_flat(function(**second)), *changed)

    return program


def _flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _detached(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value
