"""Facts of kernels in the languages of other backends of the CPU."""

from __future__ import annotations

import importlib.util

import pytest

from conformance import case, tensor
from conformance.capture.compiler_options import PACKAGES, problem_of
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets
from conformance.expectations import requirements
from conformance.facts import extract


@pytest.mark.parametrize("backend", PACKAGES)
def test_kernels_count_and_do_not_say_how_they_are_vectorised(backend):
    if importlib.util.find_spec(PACKAGES[backend]) is None:
        pytest.skip(f"{PACKAGES[backend]} is not installed: pip install {PACKAGES[backend]}")

    @case(x=tensor(8, 9), config={"cpu_backend": backend}, require={"all": {"kernels": 1, "vectorised.width": 8}})
    def test_sum(x):
        return (x * 2).sum(-1)

    target = targets()["cpu_avx2"]
    with capture(CaseRequest(test_sum.cases[0], target)) as result:
        facts = extract(result.capture)
    assert facts.text("vectorised") == f"not said: kernels of {backend}"
    assert requirements.check(test_sum.cases[0], target, facts)[0] == "kernels: wanted 1, got 1"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert problem_of("cpu_backend", "pallas") == "install jax"
    assert problem_of("cpu_backend", "cpp") == ""
