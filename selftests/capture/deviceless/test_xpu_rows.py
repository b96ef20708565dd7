"""Rows of xpu: what they say of the device, and what torch.xpu answers for them."""

from __future__ import annotations

import re

import pytest
import torch
from capturing import captured, prepare  # noqa: F401 - it prepares this process

from conformance.capture.deviceless import gpu_patches
from conformance.capture.deviceless.device_queries import DeviceQueries
from conformance.capture.isolation import isolated
from conformance.cases.inputs import tensor
from conformance.cases.target_selection import select_targets
from conformance.devices.environment import torch_build
from conformance.devices.targets import PUBLIC, targets
from conformance.facts.double_precision import reasons

ROWS = [target for target in targets().values() if target.device == "xpu"]
names = pytest.mark.parametrize("target", ROWS, ids=lambda target: target.name)


@names
def test_a_row_names_its_sources_and_its_device(target):
    assert re.fullmatch(rf"{PUBLIC}((txo|ixbt|ipex|pytorch)#\d+(, )?)+", target.confirmed)
    assert f"0x{target.properties['device_id']:X}" in target.description
    assert not target.read_on_device


@names
def test_torch_answers_every_property_of_its_own_class(target):
    """The stub of torch lists the properties that the installed torch has in a build for xpu."""
    stub = (torch_build().folder / "_C" / "__init__.pyi").read_text(encoding="utf-8")
    listed = re.search(r"class _XpuDeviceProperties:\n((?:    \w+: .*\n)+)", stub)
    assert listed
    known = set(re.findall(r"^    (\w+):", listed[1], re.MULTILINE))
    with isolated(target, "deviceless", {}):
        properties = torch.xpu.get_device_properties()
        for name in known:
            getattr(properties, name)
        assert set(dir(properties)) | {"uuid"} == known
        assert set(torch.xpu.get_device_capability()) | {"uuid"} == known


@names
def test_programs_get_what_the_device_says(target):
    with isolated(target, "deviceless", {}):
        assert torch.xpu.is_available()
        assert torch.xpu._is_compiled()
        assert re.fullmatch(r"20\d{6}", torch.version.xpu)
        assert torch.xpu.is_bf16_supported(False)
        assert torch.xpu.is_tf32_supported()
        assert torch.xpu.get_device_name() == target.properties["name"]
        assert torch.xpu.get_device_capability()["architecture"] == target.properties["architecture"]
        if target.properties["is_integrated_gpu"]:
            with pytest.raises(RuntimeError, match="integrated"):
                torch.xpu.mem_get_info()
        else:
            assert torch.xpu.mem_get_info() == (target.properties["total_memory"],) * 2
        assert torch.xpu.memory_allocated() == 0
        assert torch.xpu.get_arch_list() == []
    if "xpu" not in torch_build().gpus:
        assert torch.version.xpu is None
        assert not torch.xpu._is_compiled()


def test_dynamos_interface_answers_all_that_torchs_own_does():
    from torch._dynamo.device_interface import XpuInterface

    # no stream is made at compile time, and the base class finds properties through the worker
    inherited = {"stream", "current_stream", "set_stream", "_set_stream_by_id", "get_device_properties"}
    pretended = gpu_patches._interface(DeviceQueries(targets()["xpu_pvc"]))
    own = {name for name in vars(XpuInterface) if not name.startswith("__")} - inherited
    assert own <= set(vars(pretended))
    assert pretended.get_device_properties().gpu_subslice_count == 64
    if hasattr(XpuInterface, "is_gpu"):
        assert pretended.is_gpu()


def bmm_in_float32(a, b):
    return torch.bmm(a, b, out_dtype=torch.float32)


@pytest.mark.skipif(torch_build().release < (2, 13), reason="the wrapper needs compiled kernels before torch 2.13")
def test_a_cpp_wrapper_calls_the_bmm_of_xpu():
    shapes = {name: tensor(2, 16, 16, dtype="f16") for name in "ab"}
    for target, name in (("xpu_pvc", "xpu"), ("cuda_sm90", "cuda"), ("xpu_bmg", "xpu")):
        (module,) = captured(bmm_in_float32, target, config={"cpp_wrapper": True}, **shapes).modules
        assert f"_bmm_out_dtype_{name}" in module.code


def test_emulation_gets_the_square_tiles_of_xpu():
    """With torch.version.xpu, or the heuristics of xpu, Inductor offers more than 32 x 32."""
    from torch._inductor.runtime import triton_heuristics
    from torch._inductor.runtime.hints import TileHint

    from conformance.capture.deviceless.device_queries import kernel_properties

    def offered(name: str) -> list[dict[str, int]]:
        found = []
        original = triton_heuristics.cached_autotune
        triton_heuristics.cached_autotune = lambda _hints, configs, **_: found.extend(configs)
        try:
            with isolated(targets()[name], "deviceless", {}):
                triton_heuristics.pointwise(
                    {"y": 256, "x": 256},
                    {"device": kernel_properties(targets()[name]), "signature": {}},
                    tile_hint=TileHint.SQUARE,
                    inductor_meta={"autotune_pointwise": True},
                )
        finally:
            triton_heuristics.cached_autotune = original
        return [config.kwargs for config in found]

    assert len(offered("cuda_sm90")) == 1
    assert {"XBLOCK": 4, "YBLOCK": 256} in offered("xpu_bmg")


def power(x):
    return x**2.5 + x.mean(dtype=torch.float64).to(x.dtype)


def test_code_that_needs_double_precision_says_why():
    assert reasons(captured(lambda x: x.sin() * 2.5, "xpu_dg2", x=tensor(20))) == []
    assert "arg0_1 is f64" in reasons(captured(lambda x: x + 1, "xpu_dg2", x=tensor(20, dtype="f64")))
    found = reasons(captured(power, "xpu_dg2", x=tensor(20)))
    assert any("float64" in reason or "fp64" in reason for reason in found)


def test_a_variant_runs_only_on_request():
    rows = list(targets().values())
    assert [target.name for target in select_targets(rows, "xpu", None)] == ["xpu_pvc", "xpu_bmg"]
    assert [target.name for target in select_targets(rows, None, "xpu_dg2")] == ["xpu_dg2"]
    assert len(select_targets(rows, "xpu", None, with_variants=True)) == len(ROWS)
    native = select_targets(rows, "xpu", None, with_variants=lambda target: target.name == "xpu_lnl")
    assert [target.name for target in native] == ["xpu_pvc", "xpu_bmg", "xpu_lnl"]
    assert targets()["xpu_dg2"].variant_of == "xpu_bmg"
