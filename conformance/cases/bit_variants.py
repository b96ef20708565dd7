"""Variants of a case whose results must have the same bits, where a property of its code promises that.

batch          the first rows alone: f(x)[:n] against f(x[:n])
layout         the same values elsewhere in memory: one element further, with gaps between rows, channels last
configuration  other options of Inductor: other kernels of the same program
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.cases.case import Case
from conformance.cases.given_case import GivenCase
from conformance.containers import leaves_of

if TYPE_CHECKING:
    import torch

RUN, BATCH, LAYOUT, CONFIGURATION, EAGER = "run", "batch", "layout", "configuration", "eager"
#: Property → what has the same bits, as the report says it.
PROPERTIES = {
    RUN: "two calls with the same inputs, in any process",
    BATCH: "the first rows alone, and among others",
    LAYOUT: "the same values elsewhere in memory",
    CONFIGURATION: "other kernels of the same program",
    EAGER: "compiled and eager",
}
SAME, DIFFER, MAY_DIFFER, UNDEFINED = "same", "differ", "may differ", "not defined"
#: Device type → options of Inductor that choose other kernels for the same program.
_OPTIONS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "cpu": ({"cpp.threads": 1}, {"max_fusion_size": 1, "epilogue_fusion": False}, {"cpp.enable_loop_tail_vec": False}),
    "gpu": (
        {"triton.persistent_reductions": False},
        {"split_reductions": False},
        {"max_fusion_size": 1, "epilogue_fusion": False},
    ),
}
#: What torch has for eager's bits, the least first; for the bits of each run; and for those of fewer rows.
EAGER_MODES: tuple[dict[str, Any], ...] = (
    {"emulate_precision_casts": True},
    {
        "emulate_precision_casts": True,
        "eager_numerics.division_rounding": True,
        "eager_numerics.disable_ftz": True,
    },
    {"numerics": "strict"},
)
RUN_MODES: tuple[dict[str, Any], ...] = ({"deterministic": True},)
BATCH_MODES: tuple[dict[str, Any], ...] = ({"batch_invariant": True},)


@dataclass(frozen=True)
class BitVariant:
    """A variant. `rows`: how many of the first rows of each output it computes, and of how many; None for all.

    `options`: of Inductor, that it changes.
    """

    kind: str
    name: str
    case: Case
    rows: tuple[int, int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def variants(case: Case, kind: str, device: str, *, together: bool = False) -> Iterator[BitVariant]:
    """The variants of a layout or a configuration. `device`: the type of the target's device.

    `together`: of a layout, fewer ones, each with several changes.
    """
    if kind == LAYOUT:
        yield from _layouts(case, together=together)
    else:
        known = _OPTIONS["cpu" if device == "cpu" else "gpu"]
        for options in known:
            yield BitVariant(kind, text_of(options), case.with_config(options), options=options)


def text_of(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())


def known_modes(modes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The modes that the installed torch has."""
    from torch._inductor import config

    known = config.get_config_copy().keys()
    return [mode for mode in modes if mode.keys() <= known]


def row_sets(case: Case) -> list[tuple[str, ...]]:
    """Which tensors may have the rows of a batch, the likeliest first: a weight may have as many rows by chance."""
    tensors = {name: each for name, each in _tensors(case).items() if each.dim()}
    floating = [name for name, each in tensors.items() if each.is_floating_point()]
    found: dict[tuple[str, ...], None] = {}
    for lead in list(dict.fromkeys((*floating[:1], *tensors)))[:3]:
        shape = tensors[lead].shape
        same = [name for name, each in tensors.items() if each.shape[0] == shape[0]]
        found[tuple(same)] = None
        found[tuple(name for name in same if tensors[name].dim() == len(shape))] = None
        found[lead,] = None
    return list(found)


def batches(case: Case, names: Sequence[str]) -> Iterator[BitVariant]:
    """The first row, and the first half, of these tensors. None where there is one row."""
    tensors = {name: each for name, each in _tensors(case).items() if name in names}
    rows = next(iter(tensors.values())).shape[0]
    for few in dict.fromkeys((1, rows // 2)):
        if 0 < few < rows:
            changed = {name: each[:few] for name, each in tensors.items()}
            yield BitVariant(BATCH, f"{few} of {rows} rows", with_tensors(case, changed), (few, rows))


def other_gradients(case: Case, names: Sequence[str]) -> list[str]:
    """The tensors that require a gradient and have no rows of the batch: their gradients are sums over all rows."""
    leaves = _leaves(case.build(0), into_modules=True)
    return [path for path, leaf in leaves if path not in names and getattr(leaf, "requires_grad", False)]


def without_gradients(case: Case, names: Collection[str]) -> Case:
    """The case in which these tensors require no gradient."""
    arguments = case.build(0)
    for path, leaf in _leaves(arguments, into_modules=True):
        if path in names:
            leaf.requires_grad_(False)
    return _given(case, arguments)


def _layouts(case: Case, *, together: bool) -> Iterator[BitVariant]:
    tensors = {name: each for name, each in _tensors(case).items() if each.is_floating_point() and each.numel()}
    tensors = {name: each for name, each in tensors.items() if not _is_expanded(each)}
    wide = {name: each for name, each in tensors.items() if each.dim() > 1 and each.is_contiguous()}
    if tensors and not (together and wide):
        further = {name: _placed(each, each.stride(), 1) for name, each in tensors.items()}
        yield BitVariant(LAYOUT, "one element further in memory", with_tensors(case, further))
    if wide:
        gaps, name = {name: _with_gaps(each, int(together)) for name, each in wide.items()}, "with gaps between rows"
        if together:
            gaps |= {name: _placed(each, each.stride(), 1) for name, each in tensors.items() if name not in wide}
            name += ", one element further in memory"
        yield BitVariant(LAYOUT, name, with_tensors(case, gaps))
    images = {name: each for name, each in tensors.items() if each.dim() == 4}
    if images:
        import torch

        last = {name: each.contiguous(memory_format=torch.channels_last) for name, each in images.items()}
        yield BitVariant(LAYOUT, "channels last", with_tensors(case, last))


def _is_expanded(tensor: torch.Tensor) -> bool:
    """Whether elements share memory: such a tensor cannot be written elsewhere as it is."""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _placed(tensor: torch.Tensor, strides: tuple[int, ...], offset: int) -> torch.Tensor:
    import torch

    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    storage = torch.zeros(offset + elements, dtype=tensor.dtype)
    return storage.as_strided(tensor.shape, strides, offset).copy_(tensor.detach())


def _with_gaps(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """The rows of the last dimension, with three elements between two of them."""
    strides, step = [1] * tensor.dim(), tensor.shape[-1] + 3
    for dim in reversed(range(tensor.dim() - 1)):
        strides[dim], step = step, step * tensor.shape[dim]
    return _placed(tensor, tuple(strides), offset)


def _tensors(case: Case) -> dict[str, torch.Tensor]:
    """The tensors among the arguments, by path, without those of modules."""
    import torch

    return {
        path: leaf
        for path, leaf in _leaves(case.build(0))
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
    }


def _leaves(arguments: Mapping[str, Any], *, into_modules: bool = False) -> Iterator[tuple[str, Any]]:
    for name, argument in arguments.items():
        yield from leaves_of(argument, name, into_modules=into_modules)


def with_tensors(case: Case, tensors: Mapping[str, torch.Tensor]) -> Case:
    """The case with these tensors in place of its own at these paths."""
    arguments = case.build(0)
    for path, leaf in _leaves(arguments):
        if path in tensors:
            leaf.data = tensors[path].detach()
    return _given(case, arguments)


def _given(case: Case, arguments: Mapping[str, Any]) -> GivenCase:
    own = {each.name: getattr(case, each.name) for each in dataclasses.fields(Case)}
    return GivenCase(**own | {"arguments": {}, "choices": {}}, given=arguments, with_gradients=True)
