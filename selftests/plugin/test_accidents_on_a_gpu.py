"""On a machine with a CUDA GPU: an assertion, an illegal address and too large an allocation among 50 items.

Needs the GPU, Triton and a torch built for CUDA: `python -m pytest selftests/plugin/test_accidents_on_a_gpu.py -s`.
"""

from __future__ import annotations

import os

import pytest
from accidents import PROCESSES, last_run, outcomes
from suites import Suite

from conformance.devices.machine import Machine

FILE = """
import torch
import triton
import triton.language as tl
from conformance import case, tensor

@triton.jit
def store_far_away(pointer, offset):
    tl.store(pointer + offset, 1.0)

def accident(x, what):
    if what == "assertion":
        x[torch.full((1,), 10**6, device=x.device)]
    elif what == "address" and x.is_cuda:
        store_far_away[(1,)](x, 1 << 40)
    elif what == "memory" and x.is_cuda:
        torch.empty(1 << 50, dtype=torch.uint8, device=x.device)

@case(x=tensor(64), what=ACCIDENTS)
def test_item(x, what):
    torch.compiler.disable(accident)(x, what)
    return x * 2
"""
ACCIDENTS = {5: "assertion", 20: "address", 35: "memory"}
NAMES = [ACCIDENTS.get(number, f"fine{number}") for number in range(50)]
REASONS = {
    "assertion": ("device-side assert",),
    "address": ("illegal memory access",),
    "memory": ("OutOfMemoryError", "out of memory"),
}


@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_errors_of_the_gpu_fail_their_own_items(tmp_path, processes):
    machine = Machine.detect()
    if "cuda" not in machine.gpus:
        pytest.skip("plants errors of a real CUDA GPU, and this machine has none")
    suite = Suite(tmp_path)
    suite.write("ops/test_gpu.py", FILE.replace("ACCIDENTS", repr(NAMES)))
    arguments = ("--target", machine.target_of("cuda").name, "--checks", "numerics")
    visible = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}
    ran = suite.run(*arguments, *processes, env=visible, timeout=500).ends(1)
    print(ran.text)
    recorded = outcomes(suite)
    assert set(recorded) == set(NAMES)
    assert len(last_run(suite).selected()) == 50
    for name, outcome in recorded.items():
        if name in REASONS:
            assert "failed: " in outcome, (name, outcome)
            assert any(reason in outcome for reason in REASONS[name]), (name, outcome)
        else:
            assert outcome == "numerics passed", (name, outcome)
    ran.has("has broken the cuda context")
    ran.has_not("not run:", "INTERNALERROR")
    assert all(item.mode == "native" for item in last_run(suite).items())
