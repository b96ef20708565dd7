"""What is wrong with a declared value: of a property of an input or a module, and of a keyword of @case."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

#: Layouts that need some dimensions → the numbers of dimensions that they have a meaning for, and these in words.
_DIMENSIONS: Mapping[str, tuple[Collection[int], str]] = {
    "channels_last": ((4, 5), "4 or 5 dimensions"),
    "transposed": (range(2, 100), "2 dimensions or more"),
    "sliced": (range(2, 100), "2 dimensions or more"),
    "strided": (range(1, 100), "1 dimension or more"),
    "expanded": (range(1, 100), "1 dimension or more"),
}

#: What other packages call some dtypes.
_OTHER_WORDS = {"half": "f16", "float": "f32", "double": "f64", "short": "i16", "int": "i32", "long": "i64"}
_OTHER_WORDS |= {"fp16": "f16", "fp32": "f32", "fp64": "f64"}


def problem_of_name(value: Any, known: Mapping[str, str] | Sequence[str]) -> str:
    """Why a value is none of the known names, with the nearest ones; "" if it is one.

    `known`: the names, or name → torch's name of the same.
    """
    if isinstance(value, str) and value in known:
        return ""
    if isinstance(value, (tuple, set)):
        return f"a tuple is one value: for one case each, write {[*value]!r}"
    others = {theirs: name for name, theirs in known.items()} if isinstance(known, Mapping) else {}
    word = _OTHER_WORDS.get(str(value), str(value).removeprefix("torch."))
    if word in others:
        return f"write {others[word]!r}"
    if word in known:
        return f"write {word!r}"
    near = difflib.get_close_matches(word, [*known, *others], 3, 0.5)
    hint = (
        f"; did you mean {' or '.join(repr(each) for each in dict.fromkeys(others.get(each, each) for each in near))}?"
    )
    return f"it must be one of {', '.join(known)}{hint if near else ''}"


def problem_of_shape(value: Any) -> str:
    """Why a value is no shape; "" if it is one."""
    if value is None:
        return "it is not set: write tensor(20), or a keyword shape=… of @case"
    if not isinstance(value, (tuple, list)):
        return f"it must be a tuple of sizes: write ({value},)" if _is_size(value) else "it must be a tuple of sizes"
    if value and all(isinstance(each, (tuple, list)) for each in value):
        return _problem_of_shapes(value if len(value) > 1 else value[0])
    wrong = [size for size in value if not _is_size(size)]
    if not wrong:
        return ""
    keyword = "; the dtype and the layout are keywords: tensor(20, dtype='f32')" if isinstance(wrong[0], str) else ""
    return f"{wrong[0]!r} is no size: sizes are whole numbers from 0 on{keyword}"


def _problem_of_shapes(value: Sequence[Any]) -> str:
    """Why what tensor() got is not its sizes: they are in brackets of their own, or there are several shapes."""
    if any(isinstance(each, (tuple, list)) for each in value):
        return "write one shape, such as tensor(7, 33), or for one case each tensor(shape=[(20,), (7, 33)])"
    sizes = ", ".join(map(str, value)) or "shape=()"
    return problem_of_shape(value) or f"the sizes need no brackets of their own: write tensor({sizes})"


def problem_of_size(value: Any) -> str:
    """Why a value is no size of an image, or no number of channels; "" if it is one."""
    several = ", and one: image(3, size=224)" if isinstance(value, (tuple, list)) else ""
    return "" if _is_size(value) else f"it must be a whole number from 0 on{several}"


def problem_of_bound(value: Any) -> str:
    """Why a value is no number for a range; "" if it is one, or None."""
    return "" if value is None or isinstance(value, (int, float)) else "it must be a number"


def problem_of_layout(layout: str, shape: Sequence[int]) -> str:
    """Why a layout does not fit a shape; "" if it does."""
    numbers, words = _DIMENSIONS.get(layout, ((), ""))
    return f"{layout!r} needs {words}, and the shape is {tuple(shape)}" if words and len(shape) not in numbers else ""


def problem_of_keyword(name: str, value: Any) -> str:
    """Why a value is none of the keyword `grad`, `dynamic` or `config` of @case; "" if it is one."""
    if name == "grad" and not isinstance(value, (bool, str, type(None))):
        return 'it must be True, False, or names of inputs in one text: grad="x y"'
    if name == "dynamic" and not isinstance(value, (bool, type(None))):
        return "it must be True or False"
    if name == "config" and not isinstance(value, (Mapping, type(None))):
        return 'it must be a dict of option → value: config={"max_autotune": True}'
    return ""


def _is_size(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= 0
    except TypeError:
        return False
