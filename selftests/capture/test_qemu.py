"""C++ kernels for processors that are not here: cross-compiled, run by qemu, compared with eager."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.exc import InductorError

from conformance import case, tensor
from conformance.capture.emulation.errors import EmulationError
from conformance.capture.qemu.kernel_program import KernelProgram
from conformance.capture.qemu.wrapper import ProcessorEmulation
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices import cross_compiler
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.numerics.check import check_numerics
from conformance.numerics.comparison import NumericsError

FOREIGN = [name for name in ("cpu_neon", "cpu_sve256") if not Machine.detect().is_native(targets()[name])]
PROBLEM = cross_compiler.emulation_problem("neon")
needs_qemu = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM or "qemu is here")


def emulated(target, rewrite=None):
    """Checks vectors with a tail, functions of libm, a reduction, and a library call between two kernels."""

    @case(x=tensor(5, 37), y=tensor(5, 37, dtype="bf16"))
    def test_normalised(x, y):
        scaled = torch.softmax(x.exp() * y.float().sin(), -1)
        return (scaled @ scaled.mT).tanh().sum()

    row = targets()[target]
    request = CaseRequest(test_normalised.cases[0], row, emulate=True)
    with capture(request, emulation=ProcessorEmulation(row, rewrite)) as result:
        check_numerics(request.case, result.compiled, "cpu", target)


@needs_qemu
@pytest.mark.parametrize("target", FOREIGN)
def test_numerics(target):
    emulated(target)


@needs_qemu
def test_an_error_in_a_kernel_is_found():
    with pytest.raises(NumericsError, match="disagrees with eager"):
        emulated("cpu_neon", lambda text: text.replace(".exp()", ".log()"))


@needs_qemu
def test_a_kernel_that_does_not_build_is_an_error_of_compiling():
    """As it is natively: check_numerics is not reached."""

    def test_added(x):
        return x + 1

    row = targets()["cpu_neon"]
    (added,) = case(x=tensor(64))(test_added).cases
    emulation = ProcessorEmulation(row, lambda text: text.replace("loadu(", "no_such_function("))
    with (
        pytest.raises(InductorError, match="no_such_function"),
        capture(CaseRequest(added, row, emulate=True), emulation=emulation),
    ):
        pass


def program(source, *types):
    return KernelProgram("neon", types, f'#include <stdexcept>\n#include <cstdint>\nextern "C" {source}', lambda: 20.0)


@needs_qemu
def test_arguments():
    """Two views of one tensor share memory, and what lies between them is kept."""
    memory = torch.arange(8.0)
    add = program(
        "void kernel(const float* x, float* y, int64_t n, double by)"
        "{ for (int64_t i = 0; i < n; ++i) y[i] = x[i] + by; }",
        *("const float*", "float*", "int64_t", "double"),
    )
    add(memory[:4], memory[2:6], 4, 0.5)
    assert memory.tolist() == [0, 1, 0.5, 1.5, 1, 2, 6, 7]


@needs_qemu
def test_what_a_kernel_raises():
    with pytest.raises(RuntimeError, match=r"^index out of bounds$"):
        program('void kernel(float* x) { throw std::runtime_error("index out of bounds"); }', "float*")(torch.ones(1))
    with pytest.raises(EmulationError, match="under qemu"):
        program("void kernel(float* x) { __builtin_trap(); }", "float*")(torch.ones(1))


def test_missing_tools_are_named(monkeypatch):
    monkeypatch.setattr(cross_compiler.shutil, "which", lambda name: name if "qemu" in name else None)
    assert cross_compiler.emulation_problem("sve256") == (
        "aarch64-linux-gnu-g++ not found: apt-get install g++-aarch64-linux-gnu qemu-user"
    )
    assert "are not emulated" in cross_compiler.emulation_problem("avx512")
