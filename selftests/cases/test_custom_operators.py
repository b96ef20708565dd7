"""Errors of operators that authors wrote: one sentence says what is missing and what to do."""

import inspect
from pathlib import Path

import pytest
import torch

from conformance import load_cpp_extension
from conformance.capture.toolchain.cpp_extension import ExtensionError, needs_cuda_compiler
from conformance.cases.custom_operators import advice
from conformance.documentation import page_text


@pytest.fixture(scope="module")
def operator():
    """An operator with a kernel for the CPU alone."""
    library = torch.library.Library("conformance_selftest", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: x * 2, "CPU")
    yield torch.ops.conformance_selftest.doubled
    library._destroy()


def test_without_a_fake_kernel(operator):
    with pytest.raises(NotImplementedError) as caught:
        operator(torch.ones(3, device="meta"))
    assert advice(caught.value).startswith("the operator conformance_selftest::doubled has no fake kernel")


def test_without_the_kernel_of_a_device(operator):
    sparse = torch.ones(3).to_sparse()
    with pytest.raises(NotImplementedError) as caught:
        operator(sparse)
    assert advice(caught.value).startswith("the operator conformance_selftest::doubled has no kernel for SparseCPU")
    assert "only={'cpu': " in advice(caught.value)


def test_a_triton_kernel_on_the_cpu():
    assert "declare only={'gpu': " in advice(RuntimeError("0 active drivers ([]). There should only be one."))
    assert advice(RuntimeError("a CUDA error")) == ""


def test_a_source_with_kernels_for_cuda_is_not_built():
    with pytest.raises(
        ExtensionError, match="doubled has kernels for cuda, and load_cpp_extension compiles C\\+\\+ for"
    ):
        load_cpp_extension("doubled", "#include <cuda_runtime.h>\n__global__ void doubled(float* x) {}")


def test_the_page_has_the_signature_and_a_source_that_is_for_the_cpu():
    """Its example is the one of examples/operators, whose tests ci/examples.py runs."""
    text = page_text("custom-operators")
    assert f"`load_cpp_extension({', '.join(inspect.signature(load_cpp_extension).parameters)})`" in text
    source = text.partition('SOURCE = """')[2].partition('"""')[0]
    assert not needs_cuda_compiler(source)
    example = (Path(__file__).parents[2] / "examples/operators/src/gates/csrc/gates.cpp").read_text()
    for part in (
        "TORCH_LIBRARY_FRAGMENT(gates",
        "gated(Tensor x, Tensor gate) -> Tensor",
        "TORCH_LIBRARY_IMPL(gates, Meta",
    ):
        assert part in source
        assert part in example
