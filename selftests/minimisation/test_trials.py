"""Trials with the real compiler, in one worker."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from suites import NATIVE

from conformance.capture.compiler_parts import LeftOut
from conformance.minimisation.program import Program, Step
from conformance.minimisation.trial import Call, Trials

pytestmark = pytest.mark.skipif(not NATIVE, reason="this machine runs no CPU target")


@pytest.fixture(scope="module")
def trials():
    with Trials(NATIVE, Call()) as made:
        yield made


def program(expression):
    return Program({"x": torch.linspace(-2, 2, 20)}, (Step("y", expression),), ("y",))


@pytest.mark.long("it starts the process of trials, which imports torch and compiles C++")
def test_a_right_program_and_its_applications(trials):
    outcome = trials.run(program("torch.nn.functional.silu(x)"))
    assert (outcome.problems, outcome.error) == ((), "")
    assert "aten.silu.default" in outcome.applied["decomposition"]
    assert "aten.exp.default" in outcome.applied["lowerings"]


def test_without_a_decomposition(trials):
    """PyTorch's own bisector cannot do this: Inductor refuses a fallback of an operator with a decomposition."""
    whole = program("torch.nn.functional.silu(x)")
    place = list(trials.run(whole).applied["decomposition"]).index("aten.silu.default")
    outcome = trials.run(whole, which=LeftOut("decomposition", place, place + 1))
    assert (outcome.problems, outcome.error) == ((), "")
    assert "aten.exp.default" not in outcome.applied.get("lowerings", ())


def test_a_program_is_tried_once(trials):
    trials.run(program("torch.nn.functional.silu(x)"))
    before = trials.count
    trials.run(program("torch.nn.functional.silu(x)"))
    assert trials.count == before
    changed = dataclasses.replace(program("torch.nn.functional.silu(x)"), inputs={"x": torch.ones(3)})
    assert trials.run(changed, "aot_eager").problems == ()
    assert trials.count == before + 1


def test_what_eager_raises_is_compared(trials):
    bad = Program({"x": torch.ones(3)}, (Step("y", "torch.nn.functional.one_hot(x, 2)"),), ("y",))
    assert trials.run(bad, "eager", raises="RuntimeError").problems == ()
    [problem] = trials.run(program("x + 1"), "eager", raises="RuntimeError").problems[:1]
    assert problem.rule == "raises"


def test_a_crash_is_an_outcome(trials):
    assert trials.run(program("__import__('os').abort()"), "eager").error == "the process ended by SIGABRT"


def test_a_hang_is_an_outcome(trials):
    trials.time_limit, before = 2, trials.time_limit
    assert trials.run(program("__import__('time').sleep(99)"), "eager").error == "the process took longer than 2 s"
    trials.time_limit = before
    assert trials.run(program("x - 1"), "eager").error == ""
