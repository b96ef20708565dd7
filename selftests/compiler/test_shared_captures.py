"""A capture that several targets share is the capture that each would have alone."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from capturing import captured  # noqa: F401 - it prepares this process

from conformance.cases.case import Case
from conformance.cases.loader import cases_in
from conformance.cases.selectors import exclusion
from conformance.compiler.case_request import CaseRequest, capture
from conformance.compiler.shared_captures import SharedCaptures
from conformance.devices.targets import targets

OPS = Path(__file__).parent.parent.parent / "conformance" / "ops"
#: For each operator's file, the cases are every n-th.
SAMPLE = {"flip": 15, "softmax": 15, "reduction": 25, "mm": 6, "sum": 12, "triton_kernel": 6, "sdpa": 12}
#: Those of them that take many seconds.
LONG = ("mm", "sum", "sdpa")
#: Text that differs between two captures of one target: a counter of graphs, files in the cache, addresses.
RUN_DEPENDENT = re.compile(r"^(# AOT ID|\s*# kernel path).*$|0x[0-9a-f]+", re.MULTILINE)


def made(case, target):
    with capture(CaseRequest(case, target, texts=False)) as result:
        return result


def facts_text(found) -> tuple:
    from conformance import facts

    codes = [RUN_DEPENDENT.sub("", module.code) for module in found.modules]
    return codes, facts.extract(found).lines(), [module.kind for module in found.modules], found.counters


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(name, marks=[pytest.mark.long("it captures each sampled case for eight targets")] * (name in LONG))
        for name in SAMPLE
    ],
)
def test_shared_and_alone_are_the_same(operator):
    for case in list(cases_in(OPS / f"test_{operator}.py").values())[:: SAMPLE[operator]]:
        compare_shared_and_alone(case)


def compare_shared_and_alone(case):
    shared = SharedCaptures()
    sharing = {"cuda_sm80": ("cuda_sm90", "cuda_sm100"), "xpu_pvc": ("xpu_bmg",), "cpu_avx512": ("cpu_amx",)}
    for name, others in sharing.items():
        if exclusion(case, targets()[name]):
            continue
        target = targets()[name]
        result = made(case, target)
        shared.add(case, target, result.capture, result.queries)
        for other in map(targets().get, others):
            if (found := shared.find(case, other)) is not None:
                assert facts_text(found.for_target(other)) == facts_text(made(case, other).capture)


@pytest.fixture
def case():
    return cases_in(OPS / "test_flip.py")[next(iter(cases_in(OPS / "test_flip.py")))]


def kept(case: Case, **changed) -> SharedCaptures:
    shared, sm80 = SharedCaptures(), targets()["cuda_sm80"]
    result = made(case, sm80)
    shared.add(dataclasses.replace(case, **changed), sm80, result.capture, result.queries)
    return shared


def test_another_target_of_the_device_type_finds_it(case):
    shared = kept(case)
    assert shared.find(case, targets()["cuda_sm90"]).target.name == "cuda_sm80"
    assert shared.find(case, targets()["xpu_pvc"]) is None
    assert shared.find(case, targets()["cpu_avx2"]) is None
    assert shared.find(dataclasses.replace(case, name="other"), targets()["cuda_sm90"]) is None


def test_amx_finds_that_of_avx512_unless_it_has_a_product_from_a_template(case):
    shared, avx512 = SharedCaptures(), targets()["cpu_avx512"]
    product = next(iter(cases_in(OPS / "test_cpp_templates.py").values()))
    for each in (case, product):
        result = made(each, avx512)
        shared.add(each, avx512, result.capture, result.queries)
    assert shared.find(case, targets()["cpu_amx"]).for_target(targets()["cpu_amx"]).target == "cpu_amx"
    assert shared.find(case, targets()["cpu_avx2"]) is None
    assert shared.find(case, dataclasses.replace(targets()["cpu_amx"], threads=3)) is None
    assert shared.find(product, targets()["cpu_amx"]) is None


def test_numerics_with_another_policy_are_not_shared(case):
    other = dataclasses.replace(case, numerics={"for": {"cuda_sm90": {"exact": True}}})
    shared = kept(other)
    assert shared.find(other, targets()["cuda_sm90"]) is None
    assert shared.find(other, targets()["cuda_sm100"]) is not None


def test_a_case_with_code_of_its_own_is_not_shared(case):
    assert kept(case, prepare=lambda: None).find(case, targets()["cuda_sm90"]) is None


def test_no_graph_is_kept(case):
    assert kept(case).find(case, targets()["cuda_sm90"]).capture.complete().modules[0].graph == ""
