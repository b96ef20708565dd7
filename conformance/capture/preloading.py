"""Imports beforehand what a capture imports only when it needs it: for a process that forks.

Private parts of torch, by name only: a torch may lack some of them.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Sequence

#: What every capture imports.
_COMPILER = "torch._inductor.compile_fx"
#: What some captures import.
_LAZY = (
    "torch._dynamo.backends.inductor",
    "torch._dynamo.dce_extra_outputs",
    "torch._dynamo.repro.after_dynamo",
    "torch._export.db.logging",
    "torch._functorch._activation_checkpointing.remat_using_tags_for_fwd_loss_bwd_graph_pass",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.bounds",
    "torch._inductor.choices",
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.codegen.mps",
    "torch._inductor.codegen.mtia",
    "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.python_wrapper_mtia",
    "torch._inductor.codegen.segmented_tree",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.xpu.xpu_combined_scheduling",
    "torch._inductor.compiler_bisector",
    "torch._inductor.extern_node_serializer",
    "torch._inductor.fx_passes.apply_gumbel_max_trick",
    "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.hooks",
    "torch._inductor.kernel_template_choice",
    "torch._inductor.tiling_utils",
    "torch._subclasses.schema_check_mode",
    "torch.export._trace",
    "torch.fx.experimental.validator",
    "torch.utils.cpp_extension",
)
#: Other packages that the compiler imports, and what it imports of them late.
_OTHERS = (
    "networkx",
    "numpy",
    "sympy",
    "sympy.combinatorics",
    "sympy.physics.units",
    "sympy.tensor.tensor",
    "triton.compiler",
    "triton.language",
    "triton.language.extra.libdevice",
    "triton.runtime.jit",
)


def import_compiler() -> None:
    """Imports torch's compiler. Raises what its modules raise."""
    importlib.import_module(_COMPILER)
    _import(_LAZY)


def import_other_packages() -> None:
    """Imports what the compiler needs beside torch. Imports nothing of the compiler."""
    _import(_OTHERS)


def import_below(package: str, without: Sequence[str] = ()) -> None:
    """Imports all modules of a package. `without`: the beginnings of names of modules that are left out."""
    folders = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folders, f"{package}."):
        if not module.name.startswith(tuple(without)):
            _import([module.name])


def _import(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
