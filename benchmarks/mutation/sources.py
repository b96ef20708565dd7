"""Which files of torch get mutants, by area, and their functions.

An area is a part of Inductor that decides what is computed. Files that only choose what is fast are left out: choices,
heuristics, tilings, memory planning. Of the scheduler, only the functions that keep an order legal take part.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

#: Area → files below the folder of torch.
AREAS: dict[str, tuple[str, ...]] = {
    "lowerings": (
        "_inductor/lowering.py",
        "_inductor/inductor_prims.py",
        "_inductor/subgraph_lowering.py",
        "_inductor/kernel/flex/flex_attention.py",
        "_inductor/kernel/conv.py",
        "_inductor/kernel/mm.py",
        "_inductor/kernel/bmm.py",
    ),
    "decompositions": ("_inductor/decomposition.py", "_decomp/decompositions.py", "_refs/__init__.py"),
    "patterns": (
        "_inductor/pattern_matcher.py",
        "_inductor/constant_folding.py",
        "_inductor/fx_passes/binary_folding.py",
        "_inductor/fx_passes/decompose_mem_bound_mm.py",
        "_inductor/fx_passes/fuse_attention.py",
        "_inductor/fx_passes/joint_graph.py",
        "_inductor/fx_passes/misc_patterns.py",
        "_inductor/fx_passes/pad_mm.py",
        "_inductor/fx_passes/post_grad.py",
        "_inductor/fx_passes/pre_grad.py",
        "_inductor/fx_passes/reinplace.py",
        "_inductor/fx_passes/replace_random.py",
        "_inductor/fx_passes/split_cat.py",
    ),
    "indexing": (
        "_inductor/index_propagation.py",
        "_inductor/sizevars.py",
        "_inductor/bounds.py",
        "_inductor/optimize_indexing.py",
        "utils/_sympy/functions.py",
        "utils/_sympy/printers.py",
        "utils/_sympy/value_ranges.py",
    ),
    "loops": (
        "_inductor/ir.py",
        "_inductor/loop_body.py",
        "_inductor/dependencies.py",
        "_inductor/dtype_propagation.py",
        "_inductor/scheduler.py",
    ),
    "codegen": ("_inductor/codegen/common.py",),
    "codegen cpp": ("_inductor/codegen/cpp.py", "_inductor/codegen/cpp_utils.py"),
    "codegen triton": (
        "_inductor/codegen/simd.py",
        "_inductor/codegen/triton.py",
        "_inductor/codegen/triton_split_scan.py",
        "_inductor/codegen/triton_utils.py",
    ),
    "wrapper": (
        "_inductor/codegen/wrapper.py",
        "_inductor/codegen/cpp_wrapper_cpu.py",
        "_inductor/codegen/cpp_wrapper_gpu.py",
    ),
}

#: File → the only functions of it that get mutants.
ONLY: dict[str, frozenset[str]] = {
    "_inductor/scheduler.py": frozenset(
        {
            "can_fuse_vertical",
            "compute_dependencies",
            "dead_node_elimination",
            "fusable_read_and_write",
            "fusable_weak_dep",
            "has_aliasing_or_mutation",
            "prune_deps",
            "prune_redundant_deps",
            "prune_weak_deps",
            "topological_sort_schedule",
            "will_fusion_create_cycle",
        }
    ),
}


#: Classes and functions that choose between codes that compute the same: loops, tilings, fusions, layouts to pad.
CHOICES = frozenset(
    {
        "CppScheduling",
        "EfficientPeakEstimate",
        "SIMDScheduling",
        "TilingSelect",
        "TritonScheduling",
        "can_fuse_horizontal",
        "create_tiling",
        "num_splits",
        "pad_strides",
        "should_pad_bench",
        "should_use_cooperative_reduction",
        "should_use_persistent_reduction",
    }
)


@dataclass(frozen=True)
class Source:
    """A file of torch. `name`: its path below torch's folder, with slashes."""

    name: str
    area: str
    path: Path

    @functools.cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


def sources(torch_folder: Path) -> list[Source]:
    """The files that the installed torch has, in the order of AREAS."""
    found = [Source(name, area, torch_folder / name) for area, names in AREAS.items() for name in names]
    return [source for source in found if source.path.exists()]
