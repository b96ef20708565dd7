"""A capture that is made ahead is the same as one that is made in its turn."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import replace

import pytest
import torch
from suites import NATIVE

from conformance.capture.observers.dynamo import compiled_frames
from conformance.cases.loader import cases_in
from conformance.cases.roots import OPS
from conformance.compiler import ahead
from conformance.compiler.ahead import NotAheadError, capture_ahead
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.cpp_compiler import find_compiler
from conformance.devices.targets import targets
from conformance.facts import extract
from conformance.normalize.text import snapshot_text
from conformance.numerics.check import check_numerics

pytestmark = pytest.mark.skipif(not find_compiler() or not NATIVE, reason="no C++ compiler, or no CPU target runs here")


def some_cases(file, *names):
    cases = cases_in(OPS / f"test_{file}.py")
    return [next(case for case in cases.values() if case.name == name) for name in names]


def text_of(captured):
    return snapshot_text(captured.capture, extract(captured.capture).lines(), "cpu")


@pytest.mark.long("it compiles C++ kernels of many captures, and all of them once more alone")
def test_texts_and_numerics_of_captures_that_wait_for_each_other():
    """Several cases of one function are among them: Dynamo would make their sizes dynamic."""
    cases = list(cases_in(OPS / "test_softmax.py").values())[:5] + some_cases("smooth_l1_loss", "mean_of_20")
    target = targets()[NATIVE]
    waiting = [capture_ahead(case, target) for case in cases]
    for case, one in zip(cases, waiting, strict=True):
        with capture(CaseRequest(case, target, "native")) as alone:
            wanted = text_of(alone)
        with one.resumed() as captured:
            assert text_of(captured) == wanted, case.id
            captured.build()
            before = compiled_frames()
            check_numerics(case, captured.compiled, "cpu", target.name, already_called=True)
            assert compiled_frames() == before, f"{case.id}: Dynamo compiled again"


def test_wrong_code_is_found(monkeypatch):
    """The compiled code runs, and not the graph that runs until the kernels are built."""
    from torch._inductor.codegen.cpp import CppVecOverrides

    (case,) = some_cases("softmax", "dimensions")
    monkeypatch.setattr(CppVecOverrides, "exp", staticmethod(lambda x: f"{x}.exp() * {x}"))
    waiting = capture_ahead(case, targets()[NATIVE])
    with waiting.resumed() as captured:
        captured.build()
        with pytest.raises(AssertionError, match="compiled disagrees"):
            check_numerics(case, captured.compiled, "cpu", NATIVE, already_called=True)


CALLS = []


def other_each_time(x, **_):
    CALLS.append(0)
    return x * len(CALLS)


def test_a_call_that_compiles_again_after_a_reset():
    """Dynamo says why it does, and looks up what it compiled from: with a KeyError if the reset forgot that."""
    (case,) = some_cases("softmax", "dimensions")
    waiting = capture_ahead(replace(case, fn=other_each_time), targets()[NATIVE])
    with capture(CaseRequest(case, targets()[NATIVE], "native")):
        pass
    with waiting.resumed() as captured:
        captured.build()
        before = compiled_frames()
        captured.compiled(**case.build(1))
        assert compiled_frames() == before + 1


def broken(x, **_):
    torch._dynamo.graph_break()
    return x + 1


def test_a_graph_break_is_not_captured_ahead():
    (case,) = some_cases("softmax", "dimensions")
    with pytest.raises(NotAheadError, match="several functions are compiled, or none"):
        capture_ahead(replace(case, fn=broken), targets()[NATIVE])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"numerics": {"raises": "ValueError"}}, "compiling it raises"),
        ({"numerics": {"recompiles": 1, "reason": "a test"}}, "its numerics compile it again"),
        ({"require": {"all": {"compiles": 1}}}, "its later calls are made too"),
        ({"config": {"cpp_wrapper": True}}, "its wrapper is C++"),
        ({"fn": torch.nn.Identity()}, "it is no Python function"),
    ],
)
def test_what_is_not_captured_ahead(change, reason):
    (case,) = some_cases("softmax", "dimensions")
    with pytest.raises(NotAheadError, match=re.escape(reason)):
        capture_ahead(replace(case, **change), targets()[NATIVE])


def test_a_dropped_capture_frees_its_code():
    (case,) = some_cases("softmax", "dimensions")
    code = []
    original = ahead._with_code_of_its_own

    def remember(function):
        copy = original(function)
        code.append(weakref.ref(copy.__code__))
        return copy

    ahead._with_code_of_its_own = remember
    try:
        for _ in range(4):
            capture_ahead(case, targets()[NATIVE])
    finally:
        ahead._with_code_of_its_own = original
    torch._dynamo.reset()
    gc.collect()
    alive = [each for each in code if each() is not None]
    assert len(code) == 4
    assert len(alive) <= 1, "torch may keep the last one"
