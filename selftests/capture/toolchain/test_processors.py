"""Code for a CPU target is the same on every processor: features and caches of this one, taken away and added."""

from __future__ import annotations

import os

import pytest
import torch
from torch._inductor import cpu_vec_isa

from conformance.capture.toolchain import cpu_isa
from conformance.cases.lookup import find_case
from conformance.cases.selectors import exclusion
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets
from conformance.generated.capture_texts import whole_text

_X86 = ("avx2", "avx512")
FEATURES = ("avx2", "avx512", "avx512_bf16", "vnni", "amx_tile", "amx_fp16")
#: What a processor has: the names of its features, its cores, and the bytes of its caches.
PROCESSORS = {
    "none": ((), 1, 16 * 1024, 128 * 1024),
    "avx2": (FEATURES[:1], 3, 32 * 1024, 512 * 1024),
    "amx": (FEATURES, 64, 64 * 1024, 4 * 1024 * 1024),
}
#: Products from templates: AMX has kernels of its own for these, and none for the others.
OF_TILES = ("cpp_templates/bmm-bf16-template", "cpp_templates/integer_weight-frozen")
CASES = ("flip/hflip-224-u8-contiguous", "flex_attention/plain-f32", "cpp_templates/bmm-f16-template", *OF_TILES)


def pretend(monkeypatch: pytest.MonkeyPatch, processor: str) -> None:
    features, cores, first, second = PROCESSORS[processor]
    for feature in FEATURES:
        if hasattr(torch.cpu, f"_is_{feature}_supported"):
            monkeypatch.setattr(torch.cpu, f"_is_{feature}_supported", lambda has=feature in features: has)
    found = dict(torch.cpu.get_capabilities()) if hasattr(torch.cpu, "get_capabilities") else {}
    found |= {"l1d_cache_size": first, "l2_cache_size": second, "amx_tile": "amx_tile" in features}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(cpu_isa, "instruction_sets", lambda: tuple(each for each in features if each in _X86))
    for name, isa in (("avx2", "VecAVX2"), ("avx512", "VecAVX512"), ("amx_tile", "VecAMX")):
        monkeypatch.setattr(getattr(cpu_vec_isa, isa), "__bool__", lambda _, has=name in features: has)
    cpu_vec_isa.valid_vec_isa_list.cache_clear()


def items():
    """Of attention, which takes long to capture, one target is enough for a short run."""
    for name in CASES:
        for target in ("cpu_avx2", "cpu_avx512", "cpu_amx", "cpu_neon"):
            is_long = name.startswith("flex_attention") and target in ("cpu_avx2", "cpu_amx")
            marks = [pytest.mark.long("attention's capture for each processor takes seconds")] * is_long
            yield pytest.param(name, target, marks=marks, id=f"{name}-{target}")


@pytest.mark.parametrize(("name", "target"), list(items()))
def test_code_is_that_of_the_target(monkeypatch, name, target):
    case, _ = find_case(name, ())
    if reason := exclusion(case, targets()[target]):
        pytest.skip(reason)
    texts = {}
    for processor in PROCESSORS:
        with monkeypatch.context() as patched:
            pretend(patched, processor)
            with capture(CaseRequest(case, targets()[target], "deviceless")) as result:
                texts[whole_text(result.capture, targets()[target])] = processor
    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    assert len(texts) == 1, f"only {' and '.join(texts.values())} agree"
    assert ("_amx_kernel_" in texts.popitem()[0]) is (target == "cpu_amx" and name in OF_TILES)
