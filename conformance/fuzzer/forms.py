"""The form in which a program is checked: options of the compiler, any size, a graph break, strides, special values,
state of Python and a change between two calls, an argument that eager refuses.

Each form of a program must agree with eager, so no form is compared with another one.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.capture.compiler_options import FALLBACK
from conformance.fuzzer.changes import with_state
from conformance.minimisation.program import EagerRun, Program, Step
from conformance.minimisation.trial import Call

#: Options of Inductor that a user sets, each with a value that is not the default. Those that the installed torch lacks
#: are left out. None of them may change strides, dtypes or how exact results are.
OPTIONS: tuple[dict[str, Any], ...] = (
    {"aggressive_fusion": True},
    {"allow_buffer_reuse": False},
    {"combo_kernels": True},
    {"constant_and_index_propagation": False},
    {"cpp.enable_loop_tail_vec": False},
    {"cpp.enable_tiling_heuristics": False},
    {"cpp.fallback_scatter_reduce_sum": False},
    {"cpp.max_horizontal_fusion_size": 1},
    {"decompose_mem_bound_mm": True},
    {"emulate_precision_casts": True},
    {"epilogue_fusion": False},
    {"group_fusion": True},
    {"inplace_buffers": False},
    {"loop_ordering_after_fusion": False},
    {"max_fusion_size": 2},
    {"max_pointwise_cat_inputs": 16},
    {"memory_planning": True},
    {"pattern_matcher": False},
    {"pick_loop_orders": False},
    {"realize_opcount_threshold": 2},
    {"realize_reads_threshold": 1},
    {"reorder_for_peak_memory": False},
    {"split_reductions": False},
    {"triton.dense_indexing": True},
    {"triton.max_tiles": 3},
    {"triton.persistent_reductions": False},
    {"triton.prefer_nd_tiling": True},
    {"triton.tile_reductions": True},
    {"triton.use_block_ptr": True},
    {"unroll_reductions_threshold": 64},
)
#: The options of a program that draws random numbers.
SEEDED = {FALLBACK: True}
#: Group of special values → what is written into some elements. The names are those of cases/special_values.py.
_SPECIAL = {"nan": (math.nan,), "inf": (math.inf, -math.inf), "edges": (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 3.0)}
#: What has no result for NaN and infinities that eager and compiled must share.
_NEEDS_NUMBERS = re.compile(
    r"int\d|\.long\(|\.int\(|sort|topk|kthvalue|median|\.to\(torch\.bool|bucketize|searchsorted"
)
#: What reads elements behind those of a tensor, which other strides do not have.
_READS_MEMORY = re.compile(r"as_strided|resize|set_\(|storage")
_BREAK = "torch._dynamo.graph_break()"


@dataclass(frozen=True)
class Form:
    """`options`: of Inductor. `dynamic`: compile for any size. `special`: the group of special values of the inputs.

    `raises`: the exception that eager raises, "" if it raises none. `values`: whether values are compared; see Call.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False
    special: str = ""
    raises: str = ""
    values: bool = True

    @property
    def call(self) -> Call:
        """How a trial makes the call."""
        kind, name = ("special", self.special) if self.special else ("ordinary", "first")
        numerics = {"raises": self.raises} if self.raises else {}
        return Call(
            kind=kind, name=name, dynamic=self.dynamic, config=self.options, numerics=numerics, values=self.values
        )

    @property
    def draws(self) -> bool:
        """Whether the program draws random numbers."""
        return bool(self.options.keys() & SEEDED.keys()) or not self.values

    def simpler(self) -> Iterator[Form]:
        """Forms with less, the simplest first: a program that fails in one of them is easier to understand."""
        needed = {name: value for name, value in self.options.items() if name in SEEDED}
        more = self.options != needed
        if self.dynamic or more:
            yield replace(self, dynamic=False, options=needed)
        if self.dynamic and more:
            yield replace(self, dynamic=False)
            yield replace(self, options=needed)


def drawn_form(program: Program, chance: random.Random, options: Mapping[str, Any]) -> tuple[Program, Form]:
    """The program in a form, and the form. It runs in eager like the program itself, or raises what the form says.

    `options`: that the program needs.
    """
    if chance.random() < 0.05 and (wrong := _with_a_wrong_argument(program, chance)) is not None:
        return wrong, Form(options, raises=type(EagerRun(wrong).raised).__name__)
    changes = []
    if chance.random() < 0.15 and not _READS_MEMORY.search(program.text):
        changes.append(_with_other_strides)
    if chance.random() < 0.06:
        changes.append(_with_a_break)
    for change in changes:
        changed = change(program, chance)
        if EagerRun(changed).raised is None:
            program = changed
    special = chance.choice(sorted(_SPECIAL)) if chance.random() < 0.1 else ""
    if special and (special == "edges" or not _NEEDS_NUMBERS.search(program.text)):
        changed = _with_special_values(program, special, chance)
        if EagerRun(changed).raised is None:
            program = changed
        else:
            special = ""
    else:
        special = ""
    if chance.random() < 0.25:
        program = with_state(program, chance) or program
    more = chance.choice(_known_options()) if chance.random() < 0.2 else {}
    form = Form({**options, **more}, chance.random() < 0.2, special)
    if options == SEEDED and chance.random() < 0.3:  # what compiled draws by default is made by other code
        form = replace(form, options=more, values=False)
    return program, form


def _known_options() -> list[dict[str, Any]]:
    from torch._inductor import config

    known = config.get_config_copy()
    return [options for options in OPTIONS if options.keys() <= known.keys()]


def _with_other_strides(program: Program, chance: random.Random) -> Program:
    """Some inputs with dimensions in another order in memory, with gaps, or not at the start of their storage."""
    import torch

    inputs: dict[str, Any] = {}
    for name, value in program.inputs.items():
        if not value.dim() or chance.random() < 0.5:
            inputs[name] = value
            continue
        order = chance.sample(range(value.dim()), value.dim())
        gap, offset = chance.choice((1, 1, 2)), chance.choice((0, 0, 1, 3))
        strides, step = [0] * value.dim(), gap
        for dim in order:
            strides[dim], step = step, step * max(value.shape[dim], 1)
        storage = torch.zeros(step + offset, dtype=value.dtype)
        other = storage.as_strided(value.shape, strides, offset)
        other.copy_(value.detach())
        inputs[name] = other.requires_grad_(value.requires_grad)
    return replace(program, inputs=inputs)


def _with_a_break(program: Program, chance: random.Random) -> Program:
    """Two graphs instead of one."""
    at = chance.randrange(len(program.steps) + 1)
    return replace(program, steps=(*program.steps[:at], Step("the_break", _BREAK), *program.steps[at:]))


def _with_a_wrong_argument(program: Program, chance: random.Random) -> Program | None:
    """One input with another dtype, or one element less in a dimension, or an index outside: what eager refuses."""
    import torch

    name = chance.choice(sorted(program.inputs))
    value = program.inputs[name].detach()
    wrong = [value.to(dtype) for dtype in (torch.int64, torch.float64, torch.bool, torch.uint8)]
    wrong += [value.narrow(dim, 0, size - 1) for dim, size in enumerate(value.shape) if size > 1]
    wrong += [value - 1000, value.unsqueeze(0), value.flatten()] if value.dtype == torch.int64 else []
    changed = replace(program, inputs={**program.inputs, name: chance.choice(wrong)})
    return changed if isinstance(EagerRun(changed).raised, (RuntimeError, IndexError, ValueError, TypeError)) else None


def _with_special_values(program: Program, group: str, chance: random.Random) -> Program:
    inputs: dict[str, Any] = {}
    for name, value in program.inputs.items():
        if not (value.is_floating_point() and value.numel()) or chance.random() < 0.3:
            inputs[name] = value
            continue
        other = value.detach().clone()
        for special in _SPECIAL[group]:
            place = tuple(chance.randrange(size) for size in other.shape)
            other[place] = special
        inputs[name] = other.requires_grad_(value.requires_grad)
    return replace(program, inputs=inputs)
