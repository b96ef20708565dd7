"""GPU properties that estimates of a kernel's time use: a target has them, so estimates need no device."""

from __future__ import annotations

import pytest
import torch
from capturing import captured

from conformance.capture import isolation
from conformance.cases.inputs import tensor
from conformance.cli.target_rows import target_row
from conformance.devices.environment import torch_build
from conformance.devices.machine import Machine
from conformance.devices.targets import targets

#: Before torch 2.15, Inductor passes MHz to Triton, which expects kHz.
UNIT = 1 if torch_build().release >= (2, 15) else 1000


def test_as_on_the_h200():
    """The numbers of an H200 with torch 2.11 and Triton 3.6."""
    from torch._inductor import utils

    with isolation.isolated(targets()["cuda_sm90"], "deviceless", {}):
        assert utils.get_gpu_dram_gbps() == 4814.304
        assert utils.get_device_tflops(torch.half) * UNIT == pytest.approx(535.26528)
        assert utils.get_device_tflops(torch.float32) * UNIT == pytest.approx(33.45408)


def test_the_scheduler_estimates(monkeypatch):
    from torch._inductor.scheduler import Scheduler

    found: list[float] = []

    def estimating(scheduler):
        found.extend(node.get_estimated_runtime() for node in scheduler.nodes)
        return original(scheduler)

    original = Scheduler.codegen
    monkeypatch.setattr(Scheduler, "codegen", estimating)
    captured(lambda x: x + 1, "cuda_sm90", x=tensor(1 << 20))
    milliseconds = 2 * 4 * (1 << 20) / 4814.304 / 1e6
    assert found == [pytest.approx(milliseconds)]


def test_a_described_device_says_its_clocks():
    properties = dict(targets()["cuda_sm90"].properties)
    printed = target_row(Machine(gpus={"cuda": {"capability": [9, 0], "properties": properties}}), "cuda").splitlines()
    assert {"clock_rate = 1980000", "memory_clock_rate = 3201000", "memory_bus_width = 6016"} <= set(printed)
