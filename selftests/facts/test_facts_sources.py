"""Compares each stored fact with an independent source: torch's metrics and counters, the generated text, the IR.

For functions of every kind on each instruction set and on one GPU of each backend, and for two functions on all GPUs:
facts come from what Inductor decides, and no line of facts/ and of the observers reads the target. The tests of one
capture follow each other.
"""

from __future__ import annotations

import functools
import logging
import re
from collections import Counter
from dataclasses import dataclass

import pytest
from capturing import captured
from functions import FUNCTIONS, softmax, total

from conformance.capture.model import Capture
from conformance.devices.targets import targets
from conformance.facts import Facts, extract

CPUS = [name for name, target in targets().items() if target.device == "cpu"]
GPUS = [name for name, target in targets().items() if target.device != "cpu"]
#: For every function. The other GPUs differ from these in sizes and limits, which choose among reductions.
EVERY_FUNCTION = [*CPUS, "cuda_sm90", "rocm_gfx942", "xpu_pvc"]
ON_ALL_GPUS = (softmax, total)

#: See pytest_collection_modifyitems in conftest.py.
TOGETHER = ("fn", "target")

#: The first word of a Triton kernel's name is the heuristic that it was generated for.
HEURISTICS = {
    "poi": {"pointwise", "scatter"},
    "red": {"reduction", "cooperative reduction"},
    "per": {"persistent reduction", "cooperative persistent reduction"},
    "spl": {"split scan"},
}


@dataclass(frozen=True)
class CapturedFunction:
    """`text`: of all modules; `calls`: only their `call` functions. The numbers are from torch._inductor.metrics."""

    capture: Capture
    facts: Facts
    text: str
    calls: str
    bytes_accessed: int
    vector_kernels: int
    kernels: int
    nodes: int


@functools.cache
def capture_function(fn, target: str) -> CapturedFunction:
    from torch._inductor import compile_fx, metrics

    log = compile_fx.inductor_metrics_log  # torch counts bytes only when this log is on
    level = log.level
    log.setLevel(logging.INFO)
    log.propagate, propagates = False, log.propagate
    metrics.reset()
    try:
        capture = captured(fn, target, **FUNCTIONS[fn]).complete()
    finally:
        log.setLevel(level)
        log.propagate = propagates
    text = "\n".join(module.code for module in capture.modules)
    calls = "\n".join(module.code[module.code.index("def call(") :] for module in capture.modules)
    return CapturedFunction(
        capture,
        extract(capture),
        text,
        calls.split("\ndef benchmark_compiled_module")[0],
        metrics.num_bytes_accessed,
        metrics.generated_cpp_vec_kernel_count,
        metrics.generated_kernel_count,
        metrics.ir_nodes_pre_fusion,
    )


def on(*names: str) -> pytest.MarkDecorator:
    pairs = [(fn, name) for fn in FUNCTIONS for name in names if name in EVERY_FUNCTION or fn in ON_ALL_GPUS]
    return pytest.mark.parametrize(TOGETHER, [pytest.param(fn, name, id=f"{fn.__name__}-{name}") for fn, name in pairs])


def called(found: CapturedFunction) -> list[tuple[str, str]]:
    """The kernels that the text calls, as (C++ name, Triton name); one of them is empty."""
    return re.findall(r"^\s+(?:(cpp_fused\w*)\(|(triton_\w+)\.run\()", found.calls, re.MULTILINE)


def kernels(found: CapturedFunction) -> list[dict]:
    return [call for module in found.capture.modules for call in module.observed["calls"] if call["call"] == "kernel"]


@on(*CPUS, *GPUS)
class TestOnEveryTarget:
    def test_kernels_are_those_that_the_text_calls(self, fn, target):
        found = capture_function(fn, target)
        assert found.facts.value("kernels") == len(called(found))

    def test_kernels_are_those_that_torch_counted(self, fn, target):
        """On CPU torch counts loop nests, and once more the outer loop that several share."""
        found = capture_function(fn, target)
        nests = [nest for kernel in kernels(found) for nest in kernel.get("nests", [kernel])]
        together = sum(any(nest.get("outer_loop") for nest in kernel.get("nests", [])) for kernel in kernels(found))
        assert len(nests) + together == found.kernels

    def test_operators_are_those_that_the_text_names(self, fn, target):
        """Inductor names a kernel after its operators, sorted: `cpp_fused_add_mul_tanh_0`."""
        found = capture_function(fn, target)
        names = [re.sub(r"^(cpp|triton_[a-z]+)_fused_|_\d+$", "", cpp or triton) for cpp, triton in called(found)]
        operators = [[name.removeprefix("prims.") for name in kernel["ops"]] for kernel in kernels(found)]
        assert names == ["_".join(sorted(each)) for each in operators]

    def test_library_calls_are_those_of_the_text(self, fn, target):
        found = capture_function(fn, target)
        assert found.facts.value("extern") == re.findall(r"\bextern_kernels\.(\w+)\(", found.calls)

    def test_fallbacks_are_those_of_the_text(self, fn, target):
        found = capture_function(fn, target)
        assert found.facts.value("fallbacks") == re.findall(
            r"(?<!\w)(?:torch\.ops\.)?(aten\.\w+)(?:\.\w+)?\(", found.calls
        )

    def test_patterns_are_as_many_as_torch_counted(self, fn, target):
        found = capture_function(fn, target)
        rewrites = Counter(found.capture.counters.get("inductor_rewrites", {}))
        inductor = found.capture.counters.get("inductor", {})
        assert sum(rewrites.values()) == inductor.get("pattern_matcher_count", 0)
        assert found.facts.value("patterns.fuse_attention") == inductor.get("fuse_attention", 0)

    def test_bytes_are_those_that_torch_counted(self, fn, target):
        found = capture_function(fn, target)
        moved = found.facts.value("bytes.read") + found.facts.value("bytes.written")
        # torch does not count what nests in one outer loop pass to each other, although the code stores it
        passed = 512 if fn.__name__ == "softmax" and target in CPUS else 0
        assert moved == found.bytes_accessed + passed
        assert found.facts.value("bytes") == round(moved / found.facts.value("bytes.least"), 2) >= 1.0

    def test_buffers_are_those_that_the_text_allocates(self, fn, target):
        found = capture_function(fn, target)
        assert found.facts.value("buffers") == len(re.findall(r"= empty_strided_\w+\(", found.calls))
        reused = found.facts.value("buffers.in_place") + found.facts.value("buffers.reused")
        assert reused == len(re.findall(r"# reuse$", found.calls, re.MULTILINE))

    def test_buffers_in_place_are_those_that_a_kernel_takes_as_both(self, fn, target):
        found = capture_function(fn, target)
        mutated = fn.__name__ == "scatter"  # it updates its own buffer, and reuses none
        assert mutated or (found.facts.value("buffers.in_place") > 0) == ("in_out_ptr" in found.text)

    def test_graph_breaks_are_those_that_dynamo_counted(self, fn, target):
        found = capture_function(fn, target)
        assert found.facts.value("graph_breaks") == sum(found.capture.counters.get("graph_break", {}).values()) == 0

    def test_nodes_are_all_in_some_call(self, fn, target):
        """The IR before fusion, which torch prints, has as many nodes as torch counted."""
        found = capture_function(fn, target)
        nodes = re.findall(r"^op\d+: (\w+)", found.capture.modules[0].ir_pre_fusion, re.MULTILINE)
        assert len(nodes) == found.nodes


@on(*CPUS)
class TestOnCpus:
    def test_vectorised_is_what_the_text_does(self, fn, target):
        found = capture_function(fn, target)
        vectors = "at::vec::" in found.text
        assert vectors == (found.facts.value("vectorised") in ("yes", "partly")) == (found.vector_kernels > 0)

    def test_width_is_the_step_of_the_loops(self, fn, target):
        found = capture_function(fn, target)
        steps = {int(step) for step in re.findall(r"x\d\+=static_cast<int64_t>\((\d+)L+\)", found.text)} - {1}
        width = found.facts.value("vectorised.width")
        assert steps == ({width} if width > 1 else set())

    def test_scalar_code_within_vectors_is_in_buffers(self, fn, target):
        found = capture_function(fn, target)
        assert (found.facts.value("vectorised.scalar") > 0) == ("tmpbuf" in found.text)
        assert (found.facts.value("vectorised.transposed") > 0) == ("transpose_mxn" in found.text)

    def test_parallel_is_what_the_text_does(self, fn, target):
        found = capture_function(fn, target)
        assert ("parallel" in found.facts.lines()["kernels"]) == ("#pragma omp parallel" in found.text)

    def test_ranges_are_the_ends_of_the_loops(self, fn, target):
        found = capture_function(fn, target)
        ends = set(re.findall(r"<static_cast<int64_t>\((\d+)L+\)", found.text))
        for kernel in kernels(found):
            for nest in kernel["nests"]:
                assert {size for size in [*nest["ranges"], *nest["reduced"]] if size != "1"} <= ends


@on(*GPUS)
class TestOnGpus:
    def test_kinds_are_the_heuristics_of_the_text(self, fn, target):
        found = capture_function(fn, target)
        words = [(cpp or triton).split("_")[1] for cpp, triton in called(found)]
        kinds = found.facts.value("kinds")
        assert len(kinds) == len(words)
        assert all(kind in HEURISTICS[word] for kind, word in zip(kinds, words, strict=True))

    def test_ranges_are_the_sizes_of_the_text(self, fn, target):
        found = capture_function(fn, target)
        sizes = set(re.findall(r"\bx?y?r?0?_?numel\s*=\s*(\d+)", found.text))
        for kernel in kernels(found):
            assert {size for size in [*kernel["ranges"], *kernel["reduced"]] if size != "1"} <= sizes

    def test_loads_and_stores_are_those_of_the_text(self, fn, target):
        """Facts on request: a kernel without a loop has one call for each load and store."""
        found = capture_function(fn, target)
        if "for r0_offset" in found.text:
            pytest.skip("a loop over a reduction may load the same place more than once")
        assert found.facts.value("loads") == found.text.count("tl.load(")
        atomics = found.text.count("tl.atomic_add(")
        assert found.facts.value("atomics") == atomics
        assert found.facts.value("stores") == found.text.count("tl.store(") + atomics
