"""Rows of targets.toml that describe a real GPU; the GPUs are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.cli.confirming import Confirmation
from conformance.devices.machine import Machine
from conformance.devices.target_rows import architecture, device_row, differing_properties
from conformance.devices.targets import targets

SM90, BMG = targets()["cuda_sm90"], targets()["xpu_bmg"]
AMD = {"gcnArchName": "gfx942:sramecc+:xnack-", "name": "AMD Instinct MI300X", "multi_processor_count": 304}


def gpu(target, **properties):
    return {"capability": list(target.capability), "properties": dict(target.properties) | properties}


@pytest.mark.parametrize(
    ("device", "described", "name"),
    [
        ("cuda", gpu(SM90, multi_processor_count=78), "cuda_sm90_other"),
        ("cuda", {"capability": [12, 0], "properties": dict(SM90.properties)}, "cuda_sm120"),
        ("cuda", {"capability": [9, 4], "properties": AMD}, "cuda_gfx942"),
        ("xpu", gpu(BMG, gpu_subslice_count=24), "xpu_name_it"),
        ("xpu", gpu(BMG), "xpu_bmg"),
    ],
)
def test_the_name_of_the_row(tmp_path, device, described, name):
    text = device_row(device, described, "2.13.0")
    table = tmp_path / "targets.toml"
    table.write_text(text)
    assert list(targets(table)) == [name]
    assert text.startswith("# targets.toml has this device already") is (name == "xpu_bmg")
    assert text.startswith("# not reported: flash_attention") is (name == "xpu_name_it")


def test_a_given_name(tmp_path):
    table = tmp_path / "targets.toml"
    table.write_text(device_row("xpu", gpu(BMG, gpu_subslice_count=24), "2.13.0", "xpu_b770"))
    assert targets(table)["xpu_b770"].confirmed == "on the device, torch 2.13.0"


def test_gcn_arch_name_of_nvidia_is_the_product():
    assert architecture("cuda", gpu(SM90, gcnArchName="NVIDIA H200")) == "sm90"


def test_properties_that_differ():
    assert not list(differing_properties(BMG, BMG.properties))
    other = dict(BMG.properties) | {"total_memory": 1, "gpu_eu_count": 2}
    assert list(differing_properties(BMG, other)) == [
        "gpu_eu_count: the row has 160, the device 2",
        "total_memory: the row has 12168933376, the device 1 (it depends on the driver)",
    ]


@pytest.mark.parametrize(
    ("gpus", "compares"),
    [
        ({"xpu": gpu(BMG)}, True),
        ({"cuda": gpu(SM90)}, True),
        ({"cuda": {"capability": [9, 4], "properties": AMD}}, False),
    ],
)
def test_code_that_is_generated_without_the_device(gpus, compares):
    """Nothing pretends a GPU of AMD."""
    machine = Machine(gpus=gpus)
    target = machine.target_of(next(iter(gpus)))
    confirmation = Confirmation(machine, target, Path("x.zip"), Path("run"), {})
    assert confirmation.compares_deviceless is compares
    assert target.local is not compares
