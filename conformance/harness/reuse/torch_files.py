"""torch's files: those that run when compiled code runs, and those that only generate code.

A file that only generates code changes numerics through the generated code alone. So the digest of an item's numerics
leaves it out, and an edit of one lowering runs the items again whose code it changes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.harness.reuse.file_states import digest_of, folder_states

_INDUCTOR = "_inductor/"

#: Below torch/_inductor: Python files that only generate code. A name that ends in "/" is a folder. What is not
#: listed counts as running, such as compile_fx.py, output_code.py and utils.py (they call the compiled code and copy
#: misaligned inputs), graph.py (it loads modules), cpp_builder.py and codecache.py (they build kernels), config.py,
#: runtime/, select_algorithm.py (extern_kernels) and inductor_prims.py. C++ files and headers count as running
#: wherever they are.
GENERATING = (
    "analyze_preserves_zero_mask.py",  # decides on masks
    "autoheuristic/",  # chooses between templates
    "bounds.py",  # ranges of index expressions
    "choices.py",  # heuristics: sizes of blocks, kinds of reductions
    "codegen/",  # writes kernels and wrappers; see also _USED for what wrappers import from it
    "comm_analysis.py",  # estimates times of collectives
    "comm_lowering.py",  # lowers collectives
    "comms.py",  # orders collectives
    "constant_folding.py",  # computes constants of graphs; the digest has the constants of a graph
    "decomposition.py",  # replaces operators of graphs; eager uses torch/_decomp
    "dependencies.py",  # which nodes read what
    "dtype_propagation.py",  # dtypes of intermediate values
    "fx_passes/",  # rewrites graphs; see also _USED
    "index_propagation.py",  # simplifies index expressions
    "invert_expr_analysis.py",  # inverts index expressions
    "ir.py",  # the intermediate representation
    "jagged_lowerings.py",  # lowers operators of jagged tensors
    "kernel/",  # templates; _USED has the items whose code calls their Python functions
    "kernel_inputs.py",  # arguments of templates
    "kernel_template_choice.py",  # chooses between templates
    "loop_body.py",  # the bodies of loops
    "lookup_table/",  # chooses between templates
    "lowering.py",  # lowers operators
    "memory.py",  # orders nodes by the memory that they need
    "mkldnn_ir.py",  # the intermediate representation of oneDNN's operators
    "mkldnn_lowerings.py",  # lowers oneDNN's operators; see also _USED
    "ops_handler.py",  # what a loop body may call
    "optimize_indexing.py",  # narrows index expressions
    "pattern_matcher.py",  # rewrites graphs
    "quantized_lowerings.py",  # lowers quantised operators; see also _USED
    "scheduler.py",  # fuses and orders nodes
    "shape_propagation.py",  # shapes of intermediate values
    "sizevars.py",  # simplifies sizes
    "subgraph_lowering.py",  # lowers subgraphs
    "template_heuristics/",  # configurations of templates
    "tiling_utils.py",  # sizes of tiles
)

#: A text in generated code → files of GENERATING with Python functions that this code calls.
_USED = {
    "extern_kernels.": ("kernel/", "mkldnn_lowerings.py", "quantized_lowerings.py"),  # such as bias_addmm
    "ops.bucketing.": ("fx_passes/",),  # its custom operators
}
#: A module of Inductor that generated code imports, such as torch._inductor.codegen.memory_planning.
_IMPORTED = re.compile(r"torch\._inductor\.([\w.]+)")


@dataclass(frozen=True)
class TorchFiles:
    """`running`: the digest of all files that may run. `generating`: path below torch/_inductor → state of the file."""

    running: str
    generating: dict[str, str]

    def all_generating(self) -> str:
        """The digest of all files that only generate code: for items that compile again while numerics run."""
        return digest_of(f"{path} {state}" for path, state in self.generating.items())

    def used_by(self, codes: Iterable[str]) -> str:
        """The digest of those that generated code calls or imports although they otherwise only generate code."""
        return _digest_below(tuple(self.generating.items()), frozenset(name for code in codes for name in _used(code)))


def _used(code: str) -> Iterator[str]:
    """The files and folders of Inductor that generated code calls or imports."""
    for text, names in _USED.items():
        if text in code:
            yield from names
    for imported in set(_IMPORTED.findall(code)):
        parts = imported.split(".")
        yield from ("/".join(parts[:count]) + ".py" for count in range(1, len(parts) + 1))


@functools.lru_cache(maxsize=256)  # most items use the same few files
def _digest_below(states: tuple[tuple[str, str], ...], names: frozenset[str]) -> str:
    """The digest of those files that are one of the names or below it."""
    return digest_of(f"{path} {state}" for path, state in sorted(states) if any(_is_below(path, n) for n in names))


@functools.cache
def torch_files(folder: Path) -> TorchFiles:
    """The state of the files of a torch below its folder. 0.1 s."""
    running, generating = [str(folder)], {}
    for path, state in folder_states(folder, without=("test",)):
        below = path.removeprefix(_INDUCTOR)
        if below != path and path.endswith(".py") and any(_is_below(below, name) for name in GENERATING):
            generating[below] = state
        else:
            running.append(f"{path} {state}")
    return TorchFiles(digest_of(running), generating)


def _is_below(path: str, name: str) -> bool:
    return path.startswith(name) if name.endswith("/") else path == name
