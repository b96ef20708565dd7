"""Which GPU each worker gets, from simulated machines; no GPU is used."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conformance.devices.machine import Machine, first_with_ordinals
from conformance.devices.targets import targets
from conformance.harness.schedule.gpu_binding import bind, description, gpus_of_workers

SM90, SM80 = targets()["cuda_sm90"], targets()["cuda_sm80"]


def gpu(target=SM90, **properties):
    return {"capability": list(target.capability), "properties": dict(target.properties) | properties}


def machine(*gpus, device: str = "cuda") -> Machine:
    return Machine(gpus={device: first_with_ordinals(device, gpus)} if gpus else {})


@pytest.mark.parametrize(
    ("gpus", "ordinals"),
    [
        ([gpu()], [0]),
        ([gpu(), gpu()], [0, 1]),
        ([gpu(), gpu(SM80), gpu()], [0, 2]),
        ([gpu(SM80), gpu(), gpu()], [0]),
        ([gpu(multi_processor_count=7), gpu(multi_processor_count=7), gpu(multi_processor_count=8)], [0, 1]),
    ],
)
def test_the_gpus_of_one_target(gpus, ordinals):
    found = machine(*gpus)
    assert found.ordinals("cuda") == ordinals
    assert Machine.from_json(found.to_json()).ordinals("cuda") == ordinals
    assert (found.ordinals("xpu"), Machine().ordinals("cuda")) == ([], [])


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["0", "1", "0"]),
        ("", ["0", "1", "0"]),
        ("5, 3", ["5", "3", "5"]),
        ("GPU-8932f937-d72c,GPU-b4d6,GPU-77", ["GPU-8932f937-d72c", "GPU-b4d6", "GPU-8932f937-d72c"]),
    ],
)
def test_cuda_names(visible, names):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpus_of_workers(machine(gpu(), gpu()), environment, 3) == {"cuda": names}


def test_only_gpus_of_the_first_ones_target():
    found = machine(gpu(), gpu(SM80), gpu())
    assert gpus_of_workers(found, {}, 3) == {"cuda": ["0", "2", "0"]}
    assert gpus_of_workers(found, {"CUDA_VISIBLE_DEVICES": "4,5,6"}, 2) == {"cuda": ["4", "6"]}


def test_xpu_names():
    bmg = targets()["xpu_bmg"]
    found = machine(gpu(bmg), gpu(bmg), device="xpu")
    assert gpus_of_workers(found, {}, 2) == {"xpu": ["0", "1"]}
    assert gpus_of_workers(found, {"ZE_AFFINITY_MASK": "0.1,1.0"}, 2) == {"xpu": ["0.1", "1.0"]}
    assert gpus_of_workers(found, {"ONEAPI_DEVICE_SELECTOR": "level_zero:*"}, 2) == {}


@pytest.mark.parametrize("gpus", [[], [gpu()], [gpu(), gpu(SM80)]])
def test_one_gpu_needs_no_binding(gpus):
    found = machine(*gpus)
    assert gpus_of_workers(found, {"CUDA_VISIBLE_DEVICES": "3,4"}, 2) == {}
    assert description(found, "cuda", 2) == ""


def test_a_part_of_a_divided_gpu():
    """Torch counts one of two parts: the variable stays as it is."""
    assert gpus_of_workers(machine(gpu()), {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}, 2) == {}


def test_the_environment_of_workers(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    specifications = [SimpleNamespace(popen=True, env={"A": "1"}), SimpleNamespace(popen=None, env={})]
    specifications += [SimpleNamespace(popen=True, env={}) for _ in range(2)]
    bind(machine(gpu(), gpu()), specifications)
    assert [each.env.get("CUDA_VISIBLE_DEVICES") for each in specifications] == ["6", None, "7", "6"]


def test_the_header(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert description(machine(gpu(), gpu()), "cuda", 8) == "8 workers on 2 GPUs"
    assert description(machine(*[gpu()] * 4), "cuda", 3) == "3 workers on 3 GPUs"
    assert description(machine(gpu(), gpu()), "cuda", 1) == ""
