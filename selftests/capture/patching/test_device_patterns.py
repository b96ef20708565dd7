"""Patterns for CUDA alone: a capture of a CUDA target has them, whatever the process captured before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from capturing import captured  # noqa: F401 - it prepares this process

from conformance.cases.loader import cases_in
from conformance.compiler.case_request import CaseRequest, capture
from conformance.compiler.shared_captures import SharedCaptures
from conformance.devices.targets import targets

FILE = Path(__file__).parents[3] / "conformance" / "ops" / "test_quantize.py"
LOG2 = "misc_patterns.e8m0_rceil_log2_pattern"
BITS = "misc_patterns.e8m0_rceil_pattern"

pytestmark = pytest.mark.skipif(
    torch.__version__.startswith("2.11"), reason="torch 2.11 registers no patterns for CUDA alone"
)


def made(form: str, target: str):
    with capture(CaseRequest(cases_in(FILE)[f"quantize/power_of_two-{form}"], targets()[target])) as result:
        return result


def rewrites(form: str, target: str) -> list[str]:
    return list(made(form, target).capture.counters.get("inductor_rewrites", {}))


def has_instruction(form: str, target: str) -> bool:
    return "ue8m0x2" in "".join(module.code for module in made(form, target).capture.modules)


def test_each_gpu_has_its_own_in_any_order():
    for target, log2, bits in [
        ("cuda_sm90", [LOG2], []),
        ("cpu_avx2", [], []),
        ("cuda_sm100", [LOG2], [BITS]),
        ("xpu_pvc", [], []),
        ("cuda_sm80", [LOG2], []),
    ]:
        assert (rewrites("by_log2", target), rewrites("by_bits", target)) == (log2, bits), target
        newer = target == "cuda_sm100"
        assert has_instruction("by_log2", target) == has_instruction("by_bits", target) == newer, target


@pytest.mark.parametrize("form", ["by_log2", "by_bits"])
def test_an_older_gpu_does_not_share_with_a_newer_one(form):
    shared, case = SharedCaptures(), cases_in(FILE)[f"quantize/power_of_two-{form}"]
    result = made(form, "cuda_sm80")
    shared.add(case, targets()["cuda_sm80"], result.capture, result.queries)
    assert shared.find(case, targets()["cuda_sm100"]) is None


def test_a_graph_without_them_is_shared():
    (case,) = list(cases_in(FILE.with_name("test_flip.py")).values())[:1]
    with capture(CaseRequest(case, targets()["cuda_sm80"])) as result:
        shared = SharedCaptures()
        shared.add(case, targets()["cuda_sm80"], result.capture, result.queries)
    assert shared.find(case, targets()["cuda_sm100"]) is not None
