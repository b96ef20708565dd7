"""The syntax of --input: `x=1x3x224x224:u8:channels_last`.

x=3x224x224:u8             a tensor of random values: the sizes, then a dtype (default f32) and a layout, in any order
x=20:f32   x=scalar:f32    a tensor with one dimension, and with none. `x=20` without a dtype is the number 20
x=64x1000:f32:low=0:high=1   a tensor of values in a range
beta=0.5   dims=[0,-1]     a constant: any Python literal; text needs quotes: x="'mean'"
x='torch.randn(3, 4)'      any expression of `torch` and `math`. A tensor is computed again for each seed
x=inputs.pt                a file that torch.save wrote
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.cases.dtypes import DTYPES
from conformance.cases.inputs import LAYOUTS, Input, tensor
from conformance.errors import ConformanceError, first_line

_TENSOR = re.compile(r"(?P<shape>scalar(?=:|$)|\d+(?:x\d+)+|\d+(?=:))(?P<rest>(?::[^:]*)*)")
#: The numbers of dimensions that channels_last has a meaning for, here without and with the batch.
_IMAGE_DIMENSIONS = (3, 4)


class InputError(ConformanceError, ValueError):
    """An --input that cannot be made. The message says what would be right."""


@dataclass(frozen=True)
class ParsedInput:
    """The value of an --input.

    `argument`: an Input, or a constant. `choice`: property → value of that Input; empty for a constant.
    """

    argument: Any
    choice: Mapping[str, Any]


def parse_input(text: str) -> tuple[str, ParsedInput]:
    """The name and the value of `NAME=VALUE`. Raises InputError."""
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name.isidentifier() or not value:
        raise InputError(f"--input {text!r}: write NAME=VALUE, such as x=1x3x224x224:u8:channels_last")
    if match := _TENSOR.fullmatch(value):
        return name, _tensor(text, match["shape"], [word for word in match["rest"].split(":") if word])
    if value.endswith(".pt") and "(" not in value:
        return name, _loaded(text, Path(value))
    try:
        return name, ParsedInput(ast.literal_eval(value), {})
    except (ValueError, SyntaxError):
        return name, _expression(text, value)


def _tensor(text: str, shape: str, words: list[str]) -> ParsedInput:
    sizes = () if shape == "scalar" else tuple(int(size) for size in shape.split("x"))
    chosen: dict[str, Any] = {}
    for word in words:
        prop, value = _property(text, word)
        if prop in chosen:
            raise InputError(f"--input {text!r}: {prop} has two values, {chosen[prop]} and {value}; leave one out")
        chosen[prop] = value
    layout = chosen.get("layout", "contiguous")
    if layout == "channels_last" and len(sizes) not in _IMAGE_DIMENSIONS:
        raise InputError(
            f"--input {text!r}: channels_last needs 3 or 4 dimensions, such as 3x224x224 or 1x3x224x224; "
            f"{shape} has {len(sizes)}"
        )
    if layout in ("transposed", "sliced") and len(sizes) < 2:
        raise InputError(f"--input {text!r}: {layout} needs 2 dimensions or more; {shape} has {len(sizes)}")
    bounds = {key: chosen.pop(key) for key in ("low", "high") if key in chosen}
    if layout == "channels_last" and len(sizes) == min(_IMAGE_DIMENSIONS):
        batch = tensor(1, *sizes, **bounds)
        recipe = Input(lambda **values: batch.make(**values)[0], batch.properties, batch.defaults)
        sizes = (1, *sizes)
    else:
        recipe = tensor(*sizes, **bounds)
    choice = {"shape": sizes} | chosen
    try:
        recipe.build(choice, position=0, call=0)
    except (ValueError, RuntimeError, IndexError) as error:
        raise InputError(f"--input {text!r}: {first_line(error)}") from error
    return ParsedInput(recipe, choice)


def _property(text: str, word: str) -> tuple[str, Any]:
    """The property that a word after the sizes sets, and its value."""
    key, equals, value = word.partition("=")
    if equals and key in ("low", "high"):
        try:
            return key, float(value)
        except ValueError:
            raise InputError(f"--input {text!r}: {word!r} must be a number, such as {key}=0.5") from None
    if word in DTYPES:
        return "dtype", word
    if word in LAYOUTS:
        return "layout", word
    raise InputError(
        f"--input {text!r}: {word!r} is neither a dtype ({', '.join(DTYPES)}) "
        f"nor a layout ({', '.join(LAYOUTS)}) nor a range (low=0, high=1)"
    )


def _loaded(text: str, path: Path) -> ParsedInput:
    import torch

    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"--input {text!r}: {path}: {error.strerror or error}") from error
    except Exception as error:
        raise InputError(f"--input {text!r}: torch.load cannot load {path}: {first_line(error)}") from error
    if isinstance(value, torch.Tensor):
        return ParsedInput(Input(lambda **_: value.clone(memory_format=torch.preserve_format), {}), {})
    return ParsedInput(value, {})


def _expression(text: str, source: str) -> ParsedInput:
    import math

    import torch

    names = {"torch": torch, "math": math}

    def evaluate(generator: torch.Generator) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator.initial_seed())
            return eval(source, dict(names))  # noqa: S307 - the user's own code, typed on the command line

    try:
        value = evaluate(torch.Generator().manual_seed(0))
    except Exception as error:
        kinds = "a shape (3x224x224), a Python literal (text in quotes: \"'mean'\"), an expression or a .pt file"
        raise InputError(f"--input {text!r}: {type(error).__name__}: {error}; a value is {kinds}") from error
    return ParsedInput(Input(evaluate, {}), {}) if isinstance(value, torch.Tensor) else ParsedInput(value, {})
