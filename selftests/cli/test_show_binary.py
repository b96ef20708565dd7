"""`show --stage` and `show --binary`."""

from __future__ import annotations

import pytest

from conformance.cli.main import main
from conformance.devices.environment import triton_version

pytestmark = pytest.mark.skipif(not triton_version(), reason="kernels are compiled by Triton")

HFLIP = "flip/hflip-224-u8-contiguous"


@pytest.mark.long("it compiles each kernel to its binary")
def test_the_stage_and_the_binary_of_each_kernel(capsys):
    assert main(["show", HFLIP, "--target", "cuda_sm90", "--stage", "ptx", "--binary"]) == 0
    out = capsys.readouterr().out
    assert "# ptx: inference, triton_poi_fused_flip_0, XBLOCK=1024 num_warps=4 num_stages=1\n" in out
    assert ".entry triton_poi_fused_flip_0(" in out
    assert "triton_poi_fused_flip_0 XBLOCK=512 num_warps=8 num_stages=1: registers " in out


@pytest.mark.parametrize(
    ("target", "stage", "why"),
    [
        ("cpu_avx2", "ptx", "there is no stage ptx on cpu: its kernels are C++"),
        ("cuda_sm90", "spv", "there is no stage spv on cuda: its stages are ttir, ttgir, llir, ptx, sass"),
        ("xpu_bmg", "ttgir", "no ttgir of triton_poi_fused_flip_0: Triton "),
    ],
)
def test_a_stage_that_there_is_not_says_why(capsys, target, stage, why):
    assert main(["show", HFLIP, "--target", target, "--stage", stage]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {why}")
    assert err.count("\n") == 1
