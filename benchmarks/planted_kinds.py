"""Plants the kinds of bugs of kinds.toml into Inductor, one at a time, and says whether the suite finds each.

A kind is "planted" if this file has a mistake for it. A kind that the installed torch has needs none: its case must
fail as it is. For each kind, the script checks the numerics and the requirements of the case that kinds.toml names:
natively on the CPU, and emulated for a GPU that is not here. Then it does so again with the mistake. A kind is found if
there is a problem that was not there before. Stored code is not compared. It needs Triton and a CPU with AVX2;
with AVX-512, the kinds of a CPU are planted for cpu_avx512.

    python benchmarks/planted_kinds.py                       # all kinds that are planted or that this torch has
    python benchmarks/planted_kinds.py --only stale-noop shift-width

The mistakes were written for torch 2.13. Another torch may have other code there: then a kind is "not tried".
Exit status 1: a kind was missed.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import kinds
from plants import Edit, Plant, PlantError, decomposed, lowered, replaced, source, together

from conformance.cases.lookup import find_case
from conformance.compiler.compiler import Compiler, GeneratingError, compiler_here
from conformance.devices.environment import PreparationError
from conformance.devices.machine import instruction_sets
from conformance.errors import first_line

CPU, GPU = "cpu_avx512" if "avx512" in instruction_sets() else "cpu_avx2", "cuda_sm90"
_CPP, _TRITON = "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton"
_SCHEDULER = "torch._inductor.scheduler.Scheduler"
_ACCESSED = "torch._higher_order_ops.triton_kernel_wrap.identify_accessed_tensors"
_SDPA = "torch._inductor.fx_passes.fuse_attention._scaled_dot_product_attention"


def _naive_variance(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    dims = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else dim
    count = 1
    for each in dims:
        count *= x.shape[each]
    mean = x.mean(dims, keepdim=keepdim)
    return ((x * x).mean(dims, keepdim=keepdim) - mean * mean) * (
        count / (count - (1 if correction is None else correction))
    )


def _contiguous_format() -> Any:
    import torch

    return torch.contiguous_format


def _with_writes(identify: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Torch's analysis of a user's kernel, which finds no more than `count` of the tensors that it writes."""

    def identified(*args: Any, **kwargs: Any) -> Any:
        accesses = copy.deepcopy(identify(*args, **kwargs))
        for write in list(accesses.read_writes.writes)[count:]:
            accesses.read_writes.writes.discard(write)
        return accesses

    return identified


def _without(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, which ignores one keyword."""
    return lambda *args, **kwargs: function(*args, **{key: value for key, value in kwargs.items() if key != name})


#: Kind → target and mistake.
PLANTED: dict[str, tuple[str, Plant]] = {
    # Lowerings and decompositions
    "negative-index": (
        CPU,
        source("torch._inductor.codegen.common.CSEProxy.indirect_indexing", "if var.bounds.lower < 0:", "if False:"),
    ),
    "overlapping-put": (
        CPU,
        source(
            "torch._inductor.lowering.index_put_impl_",
            "if ir.try_get_name(self) in values.get_read_names() and",
            "if False and",
        ),
    ),
    "avg-pool-ceil": (
        CPU,
        replaced(
            "torch._inductor.lowering.pooling_size", lambda size: lambda *args, **kw: (size(*args, **kw)[0], False)
        ),
    ),
    "bmm-dtype": (CPU, decomposed("bmm.default", lambda a, b: (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2))),
    "ignored-offset": (
        CPU,
        lowered(
            "as_strided.default", lambda as_strided: lambda x, size, stride, _=None: as_strided(x, size, stride, 0)
        ),
    ),
    "upsample-layout": (
        CPU,
        replaced("torch._prims_common.suggest_memory_format", lambda _: lambda _: _contiguous_format()),
    ),
    "search-offset": (GPU, Edit(r"(bucketize_binary_search\(tmp\d+, in_ptr\d+, 6, 7, 1, )1,", r"\g<1>0,")),
    "welford-persistent": (GPU, decomposed("var.correction", _naive_variance)),
    # Passes over graphs
    "stale-noop": (
        CPU,
        source("torch._inductor.fx_passes.joint_graph.remove_no_ops", "if is_mutated(replacement):", "if False:"),
    ),
    "attention-scale": (CPU, replaced(_SDPA, lambda sdpa: _without(sdpa, "scale"))),
    "attention-mask": (CPU, replaced(_SDPA, lambda sdpa: _without(sdpa, "attn_mask"))),
    "attention-permuted": (
        CPU,
        replaced(_SDPA, lambda sdpa: lambda q, k, v, **kw: sdpa(q, k, v.transpose(1, 2).reshape(v.shape), **kw)),
    ),
    "scatter-on-constant": (CPU, Edit(r"static_cast<float>\(0\.0\)", "static_cast<float>(0.5)")),
    # Fusion
    "indirect-fusion": (
        GPU,
        together(
            replaced("torch._inductor.scheduler.free_symbol_is_type", lambda _: lambda *_: False),
            replaced(f"{_SCHEDULER}.mode_requires_synchronization", lambda _: lambda *_: False),
            replaced(f"{_SCHEDULER}._same_index_with_prefix_size", lambda _: lambda *_: True),
        ),
    ),
    "atomic-fusion": (GPU, replaced(f"{_SCHEDULER}.mode_requires_synchronization", lambda _: lambda *_: False)),
    "rows-and-columns": (GPU, Edit(r"tl\.where\(r0_mask & xmask, (tmp\d+), _tmp\d+\)", r"\1")),
    # The C++ of one element
    "byte-neg": (CPU, replaced(f"{_CPP}.CppOverrides.neg", lambda _: lambda x: f"(-{x})")),
    "byte-add": (CPU, replaced(f"{_CPP}.CppOverrides.add", lambda _: lambda a, b: f"({a} + {b})")),
    "byte-mul": (CPU, replaced(f"{_CPP}.CppOverrides.mul", lambda _: lambda a, b: f"({a} * {b})")),
    "int32-wrap": (CPU, replaced(f"{_CPP}.CppOverrides.mul", lambda _: lambda a, b: f"(int64_t({a}) * {b})")),
    "shift-width": (
        CPU,
        replaced(f"{_CPP}.CppOverrides.bitwise_left_shift", lambda _: lambda a, b: f"decltype({a})({a} << ({b} & 31))"),
    ),
    "libm-rewrite": (
        CPU,
        source("torch._inductor.cpp_builder._get_ffast_math_flags", '"fmath-errno"', '"fno-math-errno"'),
    ),
    # Vectorised C++
    "joined-minimum": (
        CPU,
        replaced(f"{_CPP}.reduction_init", lambda init: lambda kind, dtype: 0 if kind == "min" else init(kind, dtype)),
    ),
    "masked-fill": (CPU, replaced(f"{_CPP}.CppVecOverrides.where", lambda where: lambda a, b, c: where(a, c, b))),
    "vector-tail": (CPU, Edit(r"C10_UNLIKELY\(x0 >=", "C10_UNLIKELY(false && x0 >=")),
    # Triton
    "nan-maximum": (
        GPU,
        replaced(f"{_TRITON}.TritonOverrides.maximum", lambda _: lambda a, b: f"tl.where({a} > {b}, {a}, {b})"),
    ),
    "triton-neg-byte": (GPU, Edit(r"= -(tmp\d+)$", r"= -(\1.to(tl.int32))")),
    "atomic-mask": (GPU, Edit(r"(tl\.atomic_add\(.*), xmask, sem=", r"\1, None, sem=")),
    "store-mask": (GPU, Edit(r"(tl\.store\(out_ptr0 .*), xmask\)", r"\1, None)")),
    "reduction-mask": (GPU, Edit(r"tl\.where\(r0_mask & xmask, (tmp\d+), 0\)", r"\1")),
    "border-select": (GPU, Edit(r"= tl\.where\((tmp\d+), (tmp\d+), (tmp\d+)\)", r"= \2")),
    "argmax-tie": (
        GPU,
        Edit(
            r"(tmp\d+_val, (tmp\d+_idx)) = triton_helpers\.max_with_index\((\w+), (\w+), 1\)",
            r"\1 = triton_helpers.max_with_index(\3, -(\4), 1); \2 = -\2",
        ),
    ),
    "argmax-nan": (GPU, Edit(r"max_with_index\((tmp\d+), ", r"max_with_index(tl.where(\1 != \1, -1e30, \1), ")),
    "amax-nan": (
        GPU,
        Edit(r"triton_helpers\.max2\((tmp\d+), ", r"triton_helpers.max2(tl.where(\1 != \1, -1e30, \1), "),
    ),
    "flex-batch-mask": (GPU, Edit(r"= \w+ % SPARSE_Z$", "= 0")),
    # Sizes, dtypes and memory
    "baked-size": (CPU, Edit(r"static_cast<int64_t>\(ks1\)", "static_cast<int64_t>(9L)")),
    "emulated-cast": (
        CPU,
        together(
            source(f"{_CPP}.CppOverrides.to_dtype", "and not config.emulate_precision_casts", ""),
            source(f"{_CPP}.CppVecOverrides.to_dtype", "and not config.emulate_precision_casts", ""),
        ),
    ),
    "constant-written": (CPU, Edit(r"buf1 = empty_strided_cpu\(.*\)", "buf1 = buf0")),
    "buffer-too-early": (CPU, Edit(r"buf6 = empty_strided_cpu\(.*\)", "buf6 = buf0")),
    "views-of-complex": (CPU, Edit(r"buf5 = empty_strided_cpu\(.*\)", "buf5 = buf0")),
    # User's Triton kernels
    "two-outputs": (GPU, Edit(r"row_kernel_0\.run\(arg0_1, buf0, buf1,", "row_kernel_0.run(arg0_1, buf0, buf0,")),
    "operator-of-views": (
        CPU,
        Edit(r"(add_to_both\.default\()(reinterpret_tensor\(arg0_1, .*\)), reinterpret_tensor\(.*$", r"\1\2, \2)"),
    ),
    "mutation-not-seen": (GPU, replaced(_ACCESSED, lambda identify: _with_writes(identify, 0))),
}


def main() -> int:
    table = {kind.name: kind for kind in kinds.kinds()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="KIND", help="kinds of kinds.toml")
    options = parser.parse_args()
    compiler = compiler_here()
    import torch

    version = ".".join(torch.__version__.split(".")[:2])
    wanted = options.only or [kind.name for kind in table.values() if kind.name in PLANTED or kind.is_in(version)]
    if unknown := [name for name in wanted if name not in table]:
        parser.error(f"kinds.toml has no kind {unknown[0]!r}")
    print(f"{'kind':32} {'case':58} {'how':8} result")
    results = []
    for name in wanted:
        how, result = outcome(compiler, table[name], version)
        results.append(result)
        print(f"{name:32} {table[name].case:58} {how:8} {result}", flush=True)
    missed, untried = results.count("missed"), sum(result.startswith("not tried") for result in results)
    found = len(wanted) - missed - untried
    print(f"torch {version}: {len(wanted)} kinds: {found} found, {missed} missed, {untried} not tried")
    return 1 if missed else 0


def outcome(compiler: Compiler, kind: kinds.Kind, version: str) -> tuple[str, str]:
    """How the bug came into torch ("planted" or "has it"), and "found: …", "missed", or why it was not tried."""
    if kind.name not in PLANTED:
        if not kind.is_in(version):
            return "-", "not tried: it is not planted, and this torch does not have it, or only a device shows it"
        targets = [GPU] if "cuda" in kind.seen else [CPU]
        found = set().union(*(problems(compiler, kind.case, target) for target in targets))
        return "has it", described(found)
    target, plant = PLANTED[kind.name]
    before = problems(compiler, kind.case, target)
    if raised := [each for each in before if each.startswith("raises ")]:
        return "planted", f"not tried: without the mistake, the case {raised[0]}"
    try:
        with plant():
            after = problems(compiler, kind.case, target)
    except PlantError as error:
        return "planted", f"not tried: {error}"
    return "planted", described(after - before)


def described(found: set[str]) -> str:
    return f"found: {min(found, key=lambda name: (not name.startswith('first'), len(name)))}" if found else "missed"


def problems(compiler: Compiler, name: str, target_name: str) -> set[str]:
    """What is wrong with a case on a target: "call: tensor: rule", or what compiling or calling raised."""
    from conformance.capture.emulation.fake_strides import with_device_strides
    from conformance.expectations.requirements import PARTNER_FACTS, RequirementError, check, wanted_facts
    from conformance.facts import extract
    from conformance.numerics.check import NumericsError, check_numerics

    case, _ = find_case(name, ())
    target = compiler.target(target_name)
    found: set[str] = set()
    try:
        with compiler.generate(case, target, run=True) as captured:
            try:
                if not wanted_facts(case, target).keys() & set(PARTNER_FACTS):
                    check(case, target, extract(captured.capture))
            except RequirementError as error:
                found.add(f"requirements: {first_line(error)}")
            checked = case if target.device == "cpu" else replace(case, fn=with_device_strides(case.fn))
            check_numerics(checked, captured.compiled, target.device, target.name, already_called=True)
    except NumericsError as error:
        found |= {problem.name for problem in error.problems}
    except PreparationError as error:
        sys.exit(f"{name} on {target_name}: {error}")
    except GeneratingError as error:
        found.add(f"compiling raises: {first_line(error.__cause__ or error)}")
    except PlantError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever compiled raises with the mistake is how it shows
        found.add(f"raises {type(error).__name__}: {first_line(error)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
