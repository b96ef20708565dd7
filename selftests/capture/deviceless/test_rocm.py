"""Code for GPUs of AMD, as torch built for ROCm generates it. Nobody compared it with a device."""

from __future__ import annotations

import re

import pytest
import torch
from capturing import captured, prepare  # noqa: F401 - it prepares this process
from torch._inductor.runtime.hints import TRITON_MAX_BLOCK

from conformance.capture.deviceless import rocm_build
from conformance.capture.isolation import isolated
from conformance.capture.offline import compiler
from conformance.cases.inputs import tensor
from conformance.cases.selectors import TargetName, applying
from conformance.devices.environment import torch_build
from conformance.devices.targets import PUBLIC, code_base_of, targets
from conformance.normalize.text import snapshot_text

ROWS = [target for target in targets().values() if target.platform == "rocm"]
names = pytest.mark.parametrize("target", ROWS, ids=lambda target: target.name)


@names
def test_a_row_names_its_sources_and_its_architecture(target):
    assert re.fullmatch(rf"{PUBLIC}([\w-]+#\d+(, )?)+", target.confirmed)
    assert target.name == f"rocm_{target.properties['gcnArchName'].partition(':')[0]}"
    assert not target.read_on_device
    assert (target.variant_of, code_base_of(target.name)) == ("cuda_sm80", "")


@names
def test_programs_get_what_a_build_for_rocm_answers(target):
    with isolated(target, "deviceless", {}):
        assert torch.cuda.is_available()
        assert torch.version.hip
        assert torch.version.cuda is None
        properties = torch.cuda.get_device_properties()
        assert properties.gcnArchName == target.properties["gcnArchName"]
        assert (properties.major, properties.minor) == target.capability == torch.cuda.get_device_capability()
        assert properties.warp_size == 64
    assert torch.version.hip is None


def test_the_defaults_are_those_of_a_build_for_rocm():
    from torch._inductor import config

    source = (torch_build().folder / "_inductor" / "config.py").read_text(encoding="utf-8")
    if torch_build().release == (2, 13):  # two options share an answer
        assert len(re.findall(r"if (?:not )?torch\.version\.hip", source)) == len(rocm_build.CONFIG) - 1
    before = config.get_config_copy()
    with isolated(targets()["rocm_gfx942"], "deviceless", {}):
        inside = config.get_config_copy()
        assert TRITON_MAX_BLOCK["X"] == 8192
    assert TRITON_MAX_BLOCK["X"] == 4096
    known = set(rocm_build.CONFIG) & set(before)
    assert {"layout_optimization", "triton.spill_threshold"} <= known
    assert {name for name in before if inside[name] != before[name]} >= known


def scaled_sum(x):
    return (x.abs().rsqrt() * x.clamp(min=1.0)).sum(-1)


def doubled(x):
    return x * 2


def test_kernels_are_written_for_hip():
    capture = captured(scaled_sum, "rocm_gfx942", x=tensor(8, 4096))
    (kernel,) = compiler.kernels(capture)
    assert kernel.device == "rocm"
    for part in ("type='hip'", "cc='gfx942'", "warp_size=64", "'is_hip': True", "'spill_threshold': 32",
                 "tl.rsqrt(", "tl.PropagateNan.ALL"):  # fmt: skip
        assert part in kernel.text, part
    assert ("['tt.pointer_range', 32]" in kernel.text) == (torch_build().release >= (2, 12)), "2.11 has no such hint"
    text = snapshot_text(capture, {}, "cuda")
    assert "DeviceProperties" not in text
    assert "'is_hip': True" in text


def test_kernels_compile_without_the_device():
    triton = pytest.importorskip("triton", reason="kernels are compiled by Triton")
    assert triton
    # torch 2.11 tries the large blocks of ROCm with this option alone
    config = {} if torch_build().release >= (2, 12) else {"max_autotune_pointwise": True}
    for target, last in (("rocm_gfx942", "hsaco"), ("rocm_gfx950", "hsaco"), ("cuda_sm120", "cubin")):
        (kernel,) = compiler.kernels(captured(doubled, target, config=config, x=tensor(1 << 20)))
        launches = compiler.launches(kernel)
        assert {launch.last for launch in launches} == {last}
        assert all(launch.registers and launch.spills == 0 for launch in launches)
        assert max(launch.widest_access for launch in launches) == 128
        if last == "hsaco":
            blocks = [launch.config.partition(" ")[0] for launch in launches]
            assert "XBLOCK=8192" in blocks
            assert any("waves_per_eu=2" in launch.config for launch in launches)
            assert all("s_endpgm" in text for _, text in compiler.stage_texts(kernel, "amdgcn"))


def test_selectors_of_cuda_apply_to_rocm():
    """Inductor writes much of the same code. `rocm` after `cuda` says what is different."""
    case = type("Case", (), {"labels": ("f32",)})()
    selectors = ("gpu", "cuda", "rocm", "cuda rocm", "xpu", "rocm_gfx950", "rocm f32")
    found = applying(selectors, case, TargetName("rocm_gfx942", "cuda"))
    assert found == ["gpu", "cuda", "rocm", "cuda rocm", "rocm f32"]
    assert applying(selectors, case, TargetName("cuda_sm90", "cuda")) == ["gpu", "cuda"]
