"""Other inputs: variants of a case whose inputs have other strides, sizes or dtypes, so that they are compiled again.

    transposed  the last two dimensions of one input are swapped in memory: of the first one alone, of all but the first
    dynamic     the same inputs, compiled for any size, as torch.compile does after a call with another size
    size 0      a size is 0, in every input that has it
    size 1      likewise, 1
    refused     one input alone has a size of 1 or another dtype, or a floating constant is 0 or -1, and
                eager raises: compiled must raise too. Constants are arguments, and numbers in the function

A variant with another layout or size counts only where eager takes it: what the program itself needs is no mistake of
the compiler. Sizes: the first and the last one that eager takes.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases.function_copies import with_code
from conformance.cases.roots import is_own_case_file

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

TRANSPOSED, DYNAMIC, REFUSED = "transposed", "dynamic", "refused"
#: Kind → the size that others become.
SIZES = {"size 0": 0, "size 1": 1}
#: Kind → at most so many variants of it count.
KINDS = {TRANSPOSED: 2, DYNAMIC: 1, **dict.fromkeys(SIZES, 2), REFUSED: 4}
#: What eager raises for another reason than its arguments: what it lacks on a device, or without one.
NO_REFUSAL = ("NotImplementedError", "NotEmulatedError", "MemoryError", "OutOfMemoryError")
#: dtype → another one, which functions refuse beside the first.
_OTHER_DTYPE = {"f32": "f64", "f64": "f32", "bf16": "f32", "f16": "f32", "c64": "f32", "i64": "i32", "i32": "i64"}
#: Values of floating constants that functions often refuse.
_CONSTANTS = (0.0, -1.0)
_ANY_SIZE = "compiled for any size"
_NAME = re.compile(rf".+ transposed|{_ANY_SIZE}|size \d+ → [01]|.+: .+ → .+")


@dataclass(frozen=True)
class OtherInputs:
    """A variant of a case. `kind`: one of KINDS. `name`: see Problem.call."""

    kind: str
    name: str
    case: Case


def are_compiled(case: Case) -> bool:
    """Whether numerics compile the case with other inputs. The suite's own cases declare those that matter."""
    return not is_own_case_file(case.file)


def is_name(call: str) -> bool:
    """Whether a variant may have this name."""
    return _NAME.fullmatch(call) is not None


def variants(case: Case, kind: str) -> Iterator[OtherInputs]:
    """The variants of one of KINDS, those first that show most. Eager may refuse them."""
    if kind in SIZES:
        return _resized(case, kind)
    return {TRANSPOSED: _transposed, DYNAMIC: _dynamic, REFUSED: _refused}[kind](case)


def variant(case: Case, name: str) -> OtherInputs | None:
    """The variant of that name; None if the case has none."""
    found = (each for kind in KINDS for each in variants(case, kind))
    return next((each for each in found if each.name == name), None) if is_name(name) else None


def _transposed(case: Case) -> Iterator[OtherInputs]:
    made = case.make_inputs(0)
    able = [path for path, each in case.inputs.items() if not each.every_value and _can_be_transposed(made[path])]
    for paths in filter(None, (able[:1], able[1:])):
        changed = {path: {"layout": "transposed"} for path in paths}
        yield OtherInputs(TRANSPOSED, f"{', '.join(paths)} transposed", _with_choices(case, changed))


def _dynamic(case: Case) -> Iterator[OtherInputs]:
    if not case.dynamic and any(size > 1 for shape in _shapes(case).values() for size in shape):
        yield OtherInputs(DYNAMIC, _ANY_SIZE, dataclasses.replace(case, dynamic=True))


def _can_be_transposed(tensor: torch.Tensor) -> bool:
    import torch

    if tensor.layout != torch.strided or tensor.dim() < 2 or not tensor.is_contiguous():
        return False
    return min(tensor.shape[-2:]) > 1


def _resized(case: Case, kind: str) -> Iterator[OtherInputs]:
    shapes, new = _shapes(case), SIZES[kind]
    sizes = list(dict.fromkeys(size for shape in shapes.values() for size in shape if size > 1))
    for old in (*sizes[:1], *sizes[:0:-1]):
        changed = {
            path: {"shape": tuple(new if size == old else size for size in shape)}
            for path, shape in shapes.items()
            if old in shape
        }
        yield OtherInputs(kind, f"size {old} → {new}", _with_choices(case, changed))


def _refused(case: Case) -> Iterator[OtherInputs]:
    shapes = _shapes(case)
    for path, shape in shapes.items():
        others = {size for name, other in shapes.items() if name != path for size in other}
        for number, size in enumerate(shape):
            if size > 1 and (size in others or shape.count(size) > 1):
                yield _of_input(case, path, "shape", shape, (*shape[:number], 1, *shape[number + 1 :]))
    for path in shapes if len(shapes) > 1 else ():
        dtype = case.inputs[path].values(case.choices[path])["dtype"]
        if dtype in _OTHER_DTYPE:
            yield _of_input(case, path, "dtype", dtype, _OTHER_DTYPE[dtype])
    for new in _CONSTANTS:
        for name, value in case.arguments.items():
            if isinstance(value, float) and value != new:
                changed = dataclasses.replace(case, arguments={**case.arguments, name: new})
                yield OtherInputs(REFUSED, f"{name}: {value} → {new}", changed)
        for position, value in enumerate(_constants(case.fn)):
            if isinstance(value, float) and value != new:
                changed = dataclasses.replace(case, fn=_with_constant(case.fn, position, new))
                yield OtherInputs(REFUSED, f"constant: {value} → {new}", changed)


def _constants(function: Any) -> tuple[Any, ...]:
    return function.__code__.co_consts if isinstance(function, types.FunctionType) else ()


def _with_constant(function: Any, position: int, new: float) -> Any:
    constants = list(function.__code__.co_consts)
    constants[position] = new
    return with_code(function, function.__code__.replace(co_consts=tuple(constants)))


def _of_input(case: Case, path: str, key: str, old: Any, new: Any) -> OtherInputs:
    return OtherInputs(REFUSED, f"{path}: {old} → {new}", _with_choices(case, {path: {key: new}}))


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Path → shape, of the inputs that declare one."""
    values = {path: each.values(case.choices[path]) for path, each in case.inputs.items()}
    return {path: tuple(each["shape"]) for path, each in values.items() if "shape" in each}


def _with_choices(case: Case, changed: Mapping[str, Mapping[str, Any]]) -> Case:
    choices = {path: {**choice, **changed.get(path, {})} for path, choice in case.choices.items()}
    return dataclasses.replace(case, choices=choices)
