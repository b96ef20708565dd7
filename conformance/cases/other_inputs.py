"""Other inputs: variants of a case that need another compile, because they have other strides, sizes or dtypes.

    transposed  one input alone has its last two dimensions swapped in memory, then all others have
    size 0      each size is 0 in every input that has it
    size 1      likewise, 1
    refused     one input has a size of 1 or another dtype alone, or a constant is 0 or -1, and eager raises: compiled
                must raise too

A variant counts only where eager takes it, `refused` only where eager does not: what the program itself needs is no
mistake of the compiler.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases.containers import Leaf

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

TRANSPOSED, REFUSED = "transposed", "refused"
#: The size that others become → the kind.
SIZES = {0: "size 0", 1: "size 1"}
KINDS = (TRANSPOSED, *SIZES.values(), REFUSED)
#: dtype → the other one, to which a function that checks its dtypes is sensitive.
_OTHER_DTYPE = {"f32": "f64", "f64": "f32", "bf16": "f32", "f16": "f32", "c64": "f32", "i64": "i32", "i32": "i64"}
#: Values of floating constants that functions often refuse.
_CONSTANTS = (0.0, -1.0)
_NAME = re.compile(r".+ transposed|size \d+ → [01]|.+: .+ → .+")


@dataclass(frozen=True)
class OtherInputs:
    """A variant of a case. `kind`: one of KINDS. `name`: see Problem.call."""

    kind: str
    name: str
    case: Case


def is_name(call: str) -> bool:
    """Whether a call may have this name."""
    return _NAME.fullmatch(call) is not None


def variants(case: Case, without: Mapping[str, str]) -> Iterator[OtherInputs]:
    """The variants of a case, in order. `without`: kinds that are left out → reason."""
    made = case.make_inputs(0)
    of_kind = {
        TRANSPOSED: _transposed(case, made),
        **{kind: _resized(case, size, kind) for size, kind in SIZES.items()},
        REFUSED: _refused(case),
    }
    for kind, found in of_kind.items():
        if kind not in without:
            yield from found


def _transposed(case: Case, made: Mapping[str, Any]) -> Iterator[OtherInputs]:
    able = [path for path, each in case.inputs.items() if not each.every_value and _can_be_transposed(made[path])]
    for paths in (able[:1], able[1:]):
        if paths:
            changed = {path: {"layout": "transposed"} for path in paths}
            yield OtherInputs(TRANSPOSED, f"{', '.join(paths)} transposed", _with_choices(case, changed))


def _can_be_transposed(tensor: torch.Tensor) -> bool:
    import torch

    if tensor.layout != torch.strided or tensor.dim() < 2 or not tensor.is_contiguous():
        return False
    return min(tensor.shape[-2:]) > 1


def _resized(case: Case, size: int, kind: str) -> Iterator[OtherInputs]:
    shapes = _shapes(case)
    for old in dict.fromkeys(each for shape in shapes.values() for each in shape if each > 1):
        changed = {
            path: {"shape": tuple(size if each == old else each for each in shape)}
            for path, shape in shapes.items()
            if old in shape
        }
        yield OtherInputs(kind, f"size {old} → {size}", _with_choices(case, changed))


def _refused(case: Case) -> Iterator[OtherInputs]:
    shapes = _shapes(case)
    for path, shape in shapes.items():
        for number, size in enumerate(shape):
            if size > 1 and any(size in other for name, other in shapes.items() if name != path):
                changed = (*shape[:number], 1, *shape[number + 1 :])
                yield _of_input(case, path, "shape", shape, changed)
    for path in shapes if len(shapes) > 1 else ():
        dtype = case.inputs[path].values(case.choices[path])["dtype"]
        if dtype in _OTHER_DTYPE:
            yield _of_input(case, path, "dtype", dtype, _OTHER_DTYPE[dtype])
    for name, value in case.arguments.items():
        for other in _CONSTANTS if isinstance(value, float) and not isinstance(value, Leaf) else ():
            if other != value:
                arguments = {**case.arguments, name: other}
                yield OtherInputs(
                    REFUSED, f"{name}: {value} → {other}", dataclasses.replace(case, arguments=arguments)
                )


def _of_input(case: Case, path: str, key: str, old: Any, new: Any) -> OtherInputs:
    return OtherInputs(REFUSED, f"{path}: {old} → {new}", _with_choices(case, {path: {key: new}}))


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Path → shape, of the inputs that declare one."""
    values = {path: each.values(case.choices[path]) for path, each in case.inputs.items()}
    return {path: tuple(each["shape"]) for path, each in values.items() if "shape" in each}


def _with_choices(case: Case, changed: Mapping[str, Mapping[str, Any]]) -> Case:
    choices = {path: {**choice, **changed.get(path, {})} for path, choice in case.choices.items()}
    return dataclasses.replace(case, choices=choices)
