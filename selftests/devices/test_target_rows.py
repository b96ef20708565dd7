"""Rows of targets.toml that describe a real GPU; the GPUs are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.cases.target_selection import select_targets
from conformance.cli.confirming import Confirmation
from conformance.cli.target_rows import architecture, device_row, differing_properties
from conformance.devices.machine import Machine
from conformance.devices.targets import TargetError, targets

SM90, BMG, GFX942 = (targets()[name] for name in ("cuda_sm90", "xpu_bmg", "rocm_gfx942"))
AMD = {"gcnArchName": "gfx942:sramecc+:xnack-", "name": "AMD Instinct MI300A", "multi_processor_count": 228}


def gpu(target, **properties):
    return {"capability": list(target.capability), "properties": dict(target.properties) | properties}


@pytest.mark.parametrize(
    ("device", "described", "name"),
    [
        ("cuda", gpu(SM90, multi_processor_count=78), "cuda_sm90_other"),
        ("cuda", {"capability": [12, 1], "properties": dict(SM90.properties)}, "cuda_sm121"),
        ("cuda", {"capability": [9, 4], "properties": AMD}, "rocm_gfx942_other"),
        ("cuda", {"capability": [11, 0], "properties": AMD | {"gcnArchName": "gfx1100"}}, "rocm_gfx1100"),
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
    assert text.startswith("# not reported: variant_of") is name.startswith("rocm")


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
    ("gpus", "name"),
    [
        ({"xpu": gpu(BMG)}, "xpu_bmg"),
        ({"cuda": gpu(SM90)}, "cuda_sm90"),
        ({"cuda": gpu(GFX942)}, "rocm_gfx942"),
        ({"cuda": gpu(GFX942, **AMD)}, "rocm_local"),
        ({"cuda": gpu(GFX942, gcnArchName="NVIDIA H300")}, "cuda_local"),
    ],
)
def test_the_target_of_a_real_gpu(gpus, name):
    """PyTorch calls AMD's GPUs cuda: their architecture tells them apart."""
    machine = Machine(gpus=gpus)
    target = machine.target_of(next(iter(gpus)))
    assert (target.name, target.local) == (name, name.endswith("_local"))
    assert target.family == name.partition("_")[0]
    assert machine.is_native(target)
    assert Confirmation(machine, target, Path("x.zip"), Path("run"), {}).compares_deviceless


def test_selecting_a_platform():
    """`cuda` selects no GPU of AMD, and nothing selects one unasked, except on its own machine."""
    rows = targets().values()
    rocm = ["rocm_gfx942", "rocm_gfx950"]
    assert [target.name for target in select_targets(rows, "rocm", None)] == rocm
    assert not [target.name for target in select_targets(rows, None, None) if target.platform]
    own = Machine(gpus={"cuda": gpu(GFX942)}).is_native
    assert [target.name for target in select_targets(rows, None, None, own) if target.platform] == rocm[:1]
    assert not [target.name for target in select_targets(rows, "cuda", None, with_variants=True) if target.platform]


def test_a_wrong_platform(tmp_path):
    table = tmp_path / "targets.toml"
    text = device_row("cuda", {"capability": [9, 4], "properties": AMD}, "2.13.0")
    for wrong, message in {
        text.replace('"rocm"', '"vulkan"'): "'rocm' with device = 'cuda'",
        text.replace("rocm_gfx942_other", "cuda_gfx942"): "must begin with rocm_",
    }.items():
        table.write_text(wrong)
        targets.cache_clear()
        with pytest.raises(TargetError, match=message):
            targets(table)
