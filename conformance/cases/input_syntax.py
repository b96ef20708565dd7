"""Inputs as typed on the command line: `x=1x3x224x224:u8:channels_last`.

x=3x224x224:u8             a tensor of random values: sizes, then in any order a dtype (f32 if left out) and a layout
x=20:f32   x=scalar:f32    of one dimension, and of none; a bare `20` is the number
x=64x1000:f32:low=0:high=1   within a range
beta=0.5   dims=[0,-1]     a constant: any Python literal; text stands in quotes
x='torch.randn(3, 4)'      any expression of `torch` and `math`, made anew for each seed where it gives a tensor
x=inputs.pt                what torch.save wrote
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.cases.inputs import DTYPES, LAYOUTS, Input, tensor
from conformance.errors import ConformanceError, first_line

_TENSOR = re.compile(r"(?P<shape>scalar(?=:|$)|\d+(?:x\d+)+|\d+(?=:))(?P<rest>(?::[^:]*)*)")
_IMAGE = (3, 4)  # the ranks that channels_last is defined for


class InputError(ConformanceError, ValueError):
    """An input that cannot be made; the message says what would be right."""


@dataclass(frozen=True)
class ParsedInput:
    """An argument: an Input with one value for each of its properties, or a constant (`choice` is empty then)."""

    argument: Any
    choice: Mapping[str, Any]


def parse_input(text: str) -> tuple[str, ParsedInput]:
    """The name, and the argument, of `NAME=VALUE`. Raises InputError."""
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name.isidentifier() or not value:
        raise InputError(f"--input {text!r}: an input is NAME=VALUE, such as x=1x3x224x224:u8:channels_last")
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
        key, equals, value = word.partition("=")
        if equals and key in ("low", "high"):
            said, chosen_value = key, _number(text, word, value)
        elif word in DTYPES or word in LAYOUTS:
            said, chosen_value = ("dtype" if word in DTYPES else "layout"), word
        else:
            raise InputError(
                f"--input {text!r}: {word!r} is neither a dtype ({', '.join(DTYPES)}) "
                f"nor a layout ({', '.join(LAYOUTS)}) nor a range (low=0, high=1)"
            )
        if said in chosen:
            raise InputError(f"--input {text!r}: two of {said}, {chosen[said]} and {chosen_value}")
        chosen[said] = chosen_value
    layout = chosen.get("layout", "contiguous")
    if layout == "channels_last" and len(sizes) not in _IMAGE:
        raise InputError(f"--input {text!r}: channels_last is for 3x224x224 and 1x3x224x224, not for {shape}")
    if layout in ("transposed", "sliced") and len(sizes) < 2:
        raise InputError(f"--input {text!r}: {layout} is about the last two dimensions, and {shape} has not two")
    bounds = {key: chosen.pop(key) for key in ("low", "high") if key in chosen}
    if layout == "channels_last" and len(sizes) == min(_IMAGE):
        batch = tensor(1, *sizes, **bounds)
        recipe = Input(lambda **values: batch.make(**values)[0], batch.properties, batch.defaults)
        sizes = (1, *sizes)
    else:
        recipe = tensor(*sizes, **bounds)
    choice = {"shape": sizes} | chosen
    try:
        recipe.build(choice, 0)
    except (ValueError, RuntimeError, IndexError) as error:
        raise InputError(f"--input {text!r}: {first_line(error)}") from error
    return ParsedInput(recipe, choice)


def _number(text: str, word: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"--input {text!r}: {word!r} is no number") from None


def _loaded(text: str, path: Path) -> ParsedInput:
    import torch

    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"--input {text!r}: {path}: {error.strerror or error}") from error
    except Exception as error:
        raise InputError(f"--input {text!r}: {path} is nothing that torch.save wrote: {first_line(error)}") from error
    if isinstance(value, torch.Tensor):
        return ParsedInput(Input(lambda **_: value.clone(memory_format=torch.preserve_format), {}), {})
    return ParsedInput(value, {})


def _expression(text: str, source: str) -> ParsedInput:
    import math

    import torch

    names = {"torch": torch, "math": math}

    def made(generator: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator.initial_seed())
            return eval(source, dict(names))  # noqa: S307 - whoever types it runs their own code anyway

    try:
        value = made(torch.Generator().manual_seed(0))
    except Exception as error:
        what = "a shape (3x224x224), a Python literal (text in quotes: \"'mean'\"), an expression or a .pt file"
        raise InputError(f"--input {text!r}: {type(error).__name__}: {error}; a value is {what}") from error
    return ParsedInput(Input(made, {}), {}) if isinstance(value, torch.Tensor) else ParsedInput(value, {})
