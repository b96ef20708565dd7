"""The instructions of C++ kernels, each with its line of the kernel."""

from __future__ import annotations

import shutil

import pytest

from conformance.capture.deviceless.prepare import prepare

prepare()  # before anything imports torch

from conformance.capture.toolchain.assembly import AssemblyError, assembly  # noqa: E402
from conformance.capture.toolchain.cpu_isa import is_of_this_architecture  # noqa: E402

SCALED = """
#include <cmath>
extern "C"  void  kernel(const float* in_ptr0,
                       float* out_ptr0)
{
    #pragma omp parallel for num_threads(2)
    for (long x0 = 0; x0 < 64; x0 += 1)
        out_ptr0[x0] = in_ptr0[x0]
            * 3.5f;
}
"""
TEMPLATE = """
static inline float helper(float x) { return x * x; }
extern "C"
void kernel(float* Y)
{
    Y[0] = helper(Y[0]);
}
"""
pytestmark = pytest.mark.skipif(not shutil.which("objdump"), reason="objdump is not installed: install binutils")


def _lines(instructions: list[tuple[str, int]], word: str) -> set[int]:
    return {line for text, line in instructions if word in text}


def test_each_kernel_has_its_instructions_with_their_lines() -> None:
    scaled, template = assembly([SCALED, TEMPLATE], "avx2")
    assert _lines(scaled, "vmulss") == {9}, "of the part that threads run"
    assert _lines(scaled, "idiv") == {6}
    assert _lines(template, "vmulss") == {6}, "a helper's, where it is inlined"
    assert _lines(template, "ret") == {7}


def test_what_does_not_compile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssemblyError, match=r"ended with status 1: .*kernels.cpp:3:.* error: "):
        assembly(["\nnonsense"], "avx2")
    with pytest.raises(AssemblyError, match="the compiler of this machine makes no code for "):
        assembly([SCALED], "neon" if is_of_this_architecture("avx2") else "avx2")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AssemblyError, match="objdump is not installed"):
        assembly([SCALED], "avx2")
