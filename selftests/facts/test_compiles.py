"""The fact compiles: the frames that Dynamo compiles, why there are several, and what later calls compile."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from capturing import facts_of

from conformance import case, tensor
from conformance.cases.later_calls import are_counted
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets
from conformance.expectations.requirements import RequirementError, check
from conformance.facts import extract
from conformance.harness.contracts import contract


def sine(x):
    return x.sin()


def in_eights(x):
    return x.reshape(-1, 4, 2).sum(1)


def broken(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() + 1


def larger(x):
    if x.shape[0] > 20:
        return x.sin()
    return x.cos()


def repeated(x):
    for k in range(3):
        x = scaled(x, k + 2)
    return x


@torch._dynamo.disable(recursive=False)
def outside(x, k):
    return scaled(x, k)


def scaled(x, k):
    return x * k


def called(x):
    return outside(outside(x, 2.0), 3.0)


@pytest.mark.parametrize("target", ["cpu_avx2", "cuda_sm90"])
def test_one_frame(target):
    found = facts_of(sine, target, x=tensor(20))
    assert (found.value("compiles"), found.value("compiles.first")) == (1, 1)
    assert found.text("compiles") == "1 in the first call: sine"
    assert "compiles" not in found.lines(), "a snapshot stores it"


def test_a_graph_break_divides_a_function():
    found = facts_of(broken, x=tensor(20))
    assert found.value("compiles") == 2
    first, why = found.text("compiles").split("\n  ")
    assert first == "2 in the first call: broken, broken after a graph break"
    assert why.startswith("divided by: Call to `torch._dynamo.graph_break()`")


def test_a_frame_of_the_first_call_may_be_compiled_again():
    found = facts_of(called, x=tensor(20))
    assert "scaled (2 times)" in found.text("compiles")
    assert "scaled again: k == 2.0 at `return x * k`" in found.text("compiles")


def _facts(fn, target="cpu_avx2", **declared):
    (only,) = case(x=tensor(20, 8), **declared)(_test(fn)).cases
    with capture(CaseRequest(only, targets()[target])) as result:
        return only, extract(result.capture), result


def _test(fn):
    def test_it(x):
        return fn(x)

    return test_it


@pytest.mark.parametrize("target", ["cpu_avx2", "cuda_sm90"])
def test_later_calls_are_counted_where_the_case_requires_it(target):
    required = {"require": {"all": {"compiles": 1}}}
    only, found, _ = _facts(larger, target, dynamic=True, **required)
    assert (found.value("compiles"), found.value("compiles.first"), found.value("compiles.later")) == (2, 1, 1)
    guard = "2 <= x.size()[0] <= 20 at `if x.shape[0] > 20:`"
    assert f"1 more in the call 'sizes + 1': {guard}" in found.text("compiles")
    with pytest.raises(RequirementError, match="wanted 1, got 2: test_it; 1 more in the call 'sizes"):
        check(only, targets()[target], found)
    _, found, _ = _facts(sine, target, dynamic=True, **required)
    assert found.value("compiles") == 1
    assert found.text("compiles").split("\n  ") == [
        "1: test_it",
        "no more in later calls: second, sizes + 1, sizes × 2 - 1, sizes 2",
        "1 beside them in the call 'sizes 1': 2 <= x.size()[0]",
        "1 beside them in the call 'sizes 0': tensor 'x' size mismatch at index 0. expected 1, actual 0",
    ]
    assert found.value("compiles.small") == 2


def test_sizes_that_the_function_needs_stay():
    """8 has to be a multiple of 4 and 2, so only 20 becomes another size."""
    _, found, _ = _facts(in_eights, dynamic=True, require={"all": {"compiles": 1}})
    assert "no more in later calls: second, sizes + 1, sizes × 2 - 1, sizes 2" in found.text("compiles")
    assert found.value("compiles.small") == 2


def test_a_requirement_of_small_sizes():
    """The message names their guards alone."""
    only, found, _ = _facts(sine, dynamic=True, require={"all": {"compiles.small": 0}})
    with pytest.raises(RequirementError, match="wanted 0, got 2: 1 beside them in the call 'sizes 1': 2 <= "):
        check(only, targets()["cpu_avx2"], found)


def test_what_later_calls_compile_is_forgotten():
    _, _, counted = _facts(larger, dynamic=True, require={"all": {"compiles": 2}})
    _, _, plain = _facts(larger, dynamic=True)
    assert len(counted.capture.modules) == len(plain.capture.modules) == 1
    codes = [each.capture.modules[0].code.partition("\n")[2] for each in (counted, plain)]  # a number differs before
    assert codes[0] == codes[1]
    assert counted.capture.counters["frames"] == plain.capture.counters["frames"]


def test_only_a_requirement_makes_later_calls():
    only, found, _ = _facts(larger, dynamic=True, require={"all": {"compiles.first": 1}})
    assert not are_counted(only)
    assert found.value("compiles") == 1
    assert not are_counted(dataclasses.replace(only, require={"all": {"kernels": 1}}))
    assert are_counted(dataclasses.replace(only, require={"cuda": {"compiles": "<=2"}}))


def test_a_contract_may_demand_one_frame():
    demand = contract(facts={"compiles": 1})
    demand.check(sine, torch.randn(20, 8), target="cuda_sm90")
    with pytest.raises(
        RequirementError, match="wanted 1, got 2: broken, broken after a graph break; divided by: Call to"
    ):
        demand.check(broken, torch.randn(20, 8), target="cuda_sm90")
