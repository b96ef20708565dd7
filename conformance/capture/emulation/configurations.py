"""Chooses the launch configuration of a generated kernel for each call.

The first call takes the configuration with the largest blocks. With it, a small input often needs one program and one
iteration of the reduction's loop, and an error of the others would not show. So the other calls take configurations
with which a kernel has several programs and its loop several iterations: Inductor's own, or else smaller ones.

A smaller block is legal where Inductor's heuristics choose the block at run time. The code assumes only that a block is
a power of two, that it divides the maximum (TRITON_MAX_BLOCK, after which Inductor leaves out masks), and that it is
not below the minimums that the heuristics know. Smaller powers of two fulfil the first two.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Into how many parts smaller blocks divide the first axis of the grid or of the loops, and the others, in the second
#: call, the third, the second again, and so on. The parts may be up to twice as many, or fewer if there are not so many
#: elements. They are few because the time of an iteration counts, and because those of two axes multiply.
_PARTS = ((3, 2), (2, 3))
#: Inductor's own configuration with more programs or iterations is too slow to interpret.
_MOST_PROGRAMS, _MOST_ITERATIONS = 64, 8
#: Grids along which the blocks of the configuration are laid. The programs of other kernels are given: by a user, by a
#: template, by the parts of a combined kernel, or by the memory that the wrapper allocates for each program.
_GRIDS = (
    "Grid1D",
    "Grid2D",
    "Grid2DWithYZOverflow",
    "Grid3D",
    "BatchMatmulGrid3D",
    "CooperativeReductionGrid",
    "SplitScanGrid",
)
_GRID_AXES = ("x", "y", "z")
_LOOP_AXES = ("r0_", "r1_")
#: The least block of tl.dot.
_DOT = 16


@dataclass(frozen=True)
class Axis:
    """An axis of a kernel's elements.

    `elements`: in this launch, of one program if programs share the axis. `is_loop`: each program visits all its
    blocks, one after the other; otherwise each block has its own program. `least`: the smallest legal block.
    """

    block: str
    elements: int
    is_loop: bool
    least: int = 1

    @property
    def is_divisible(self) -> bool:
        """Whether the axis can have more than one block."""
        return self.elements > self.least

    def parts(self, config: Any) -> int:
        return math.ceil(self.elements / config.kwargs[self.block])

    def smaller(self, block: int, parts: int) -> int:
        """The largest power of two, at most `block`, with so many parts; if there is none, the least block."""
        while block > self.least and math.ceil(self.elements / block) < parts:
            block //= 2
        return block


class Configurations:
    """The configurations of one kernel.

    `configs`: those that Inductor's heuristics offer. `meta`: Inductor's inductor_meta. `is_fixed`: whether the code is
    for the only configuration. `uses_dot`: whether the kernel multiplies matrices.
    """

    def __init__(
        self,
        configs: Sequence[Any],
        meta: Mapping[str, Any],
        *,
        is_fixed: bool = False,
        uses_dot: bool = False,
    ) -> None:
        self._meta, self._is_fixed, self._uses_dot = meta, is_fixed, uses_dot
        self.largest = config_with_largest_blocks(configs)
        self._others = [config for config in configs if config is not self.largest]
        self._choices = functools.lru_cache(maxsize=64)(self._choices_for)

    def choose(self, call: int, arguments: Mapping[str, Any]) -> Any:
        """The configuration of a launch.

        `call`: the number of the wrapper's call, from 0. `arguments`: of this launch, by name.
        """
        if not call:
            return self.largest
        choices = self._choices(self.axes(arguments))
        return choices[(call - 1) % len(choices)]

    def elements(self, arguments: Mapping[str, Any]) -> tuple[int, int]:
        """How many elements the programs of a launch share, and how many the iterations of a program.

        0 for kernels of users and of templates, whose arguments have other meanings.
        """
        grid = self._meta.get("grid_type")
        if grid not in _GRIDS and grid != "MixOrderReductionGrid":
            return 0, 0
        shared, looped = (
            math.prod(arguments.get(f"{prefix}numel", 1) for prefix in prefixes)
            for prefixes in (_GRID_AXES, _LOOP_AXES)
        )
        if grid == "SplitScanGrid":
            return shared * looped, 0
        return shared, math.ceil(looped / self.largest.kwargs.get("RSPLIT", 1))

    def axes(self, arguments: Mapping[str, Any]) -> tuple[Axis, ...]:
        """The axes whose blocks a configuration sets. None for kernels of users and of templates."""
        grid = self._meta.get("grid_type")
        if self._is_fixed or grid not in _GRIDS:
            return ()
        blocks = self.largest.kwargs
        found = []
        for prefix in (*_GRID_AXES, *_LOOP_AXES):
            block, numel = f"{prefix.upper()}BLOCK", arguments.get(f"{prefix}numel")
            if block not in blocks or not isinstance(numel, int):
                continue
            is_loop = prefix in _LOOP_AXES and grid != "SplitScanGrid"
            if is_loop and grid == "CooperativeReductionGrid":
                numel = math.ceil(numel / blocks["RSPLIT"])
            found.append(Axis(block, numel, is_loop, self._least(block)))
        return tuple(found)

    def _least(self, block: str) -> int:
        """The smallest block that the heuristics would choose. They have these minimums for some kernels."""
        if self._meta.get("grid_type") == "SplitScanGrid":
            # The wrapper allocates memory for programs with blocks of this size. It has no other axis to divide.
            return self._meta.get("min_split_scan_rblock", 256) if block.startswith("R") else self.largest.kwargs[block]
        least = (self._meta.get("tma_min_block_sizes") or {}).get(block, 1)
        named = {"XBLOCK": "min_xblock", "R0_BLOCK": "min_rblock"}.get(block, "")
        return max(least, self._meta.get(named) or 1, _DOT if self._uses_dot else 1)

    def _choices_for(self, axes: tuple[Axis, ...]) -> list[Any]:
        """The configurations of the calls after the first one."""
        if not axes:
            return [*self._others, self.largest]
        own = [config for config in (*self._others, self.largest) if _is_divided(config, axes)]
        return own or [self._smaller(axes, parts) for parts in _PARTS]

    def _smaller(self, axes: tuple[Axis, ...], parts: tuple[int, int]) -> Any:
        """The largest configuration with smaller blocks, so that each divisible axis has several parts.

        `parts`: of the first axis of the grid or of the loops, and of the others.
        """
        config = copy.copy(self.largest)
        config.kwargs = dict(self.largest.kwargs)
        for is_loop in (False, True):
            divisible = [axis for axis in axes if axis.is_loop is is_loop and axis.is_divisible]
            for number, axis in enumerate(divisible):
                config.kwargs[axis.block] = axis.smaller(config.kwargs[axis.block], parts[number > 0])
        return config


def config_with_largest_blocks(configs: Sequence[Any]) -> Any:
    """The configuration with the fewest programs: for the interpreter, a program costs the same at any block size."""
    return max(configs, key=lambda config: math.prod(v for k, v in config.kwargs.items() if k.endswith("BLOCK")))


def _is_divided(config: Any, axes: Sequence[Axis]) -> bool:
    """Whether each divisible axis has several parts with the configuration, and not too many."""
    parts = [(axis, axis.parts(config)) for axis in axes]
    programs = math.prod(count for axis, count in parts if not axis.is_loop)
    iterations = math.prod(count for axis, count in parts if axis.is_loop)
    divided = all(count > 1 for axis, count in parts if axis.is_divisible)
    return divided and programs <= _MOST_PROGRAMS and iterations <= _MOST_ITERATIONS
