"""Programs for tests, written as Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.capture.dynamo_graphs import recorded_compiles, written
from conformance.minimisation.program import Program


def program_of(fn: Callable[..., Any], **inputs: Any) -> Program:
    """The program that Dynamo captures of a function."""
    with recorded_compiles() as recorder:
        torch.compile(fn)(**inputs)
    [call] = recorder.calls
    return Program.of_graph(written(call))


def result(program: Program) -> Any:
    names: dict[str, Any] = {}
    exec(program.text, names)  # noqa: S102 - the text is what is tested
    return names["program"](**program.inputs)
