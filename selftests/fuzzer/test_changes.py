"""Changes between two calls: each side has a module of its own, and a trial sees that a guard is missing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from conformance.fuzzer.changes import OF_STATE, with_state
from conformance.fuzzer.doubts import doubt
from conformance.fuzzer.idioms_of_state import overlapping
from conformance.fuzzer.state_sources import idioms, sources
from conformance.minimisation.call_history import two_calls
from conformance.minimisation.minimiser import Minimiser
from conformance.minimisation.program import EagerRun, Program, Step
from conformance.minimisation.script import write
from conformance.minimisation.trial import Call, Trials

INPUTS = {"x0": torch.rand(4, 6), "x1": torch.rand(4, 6).requires_grad_(), "x2": torch.arange(4)}
PLAIN = Program(INPUTS, (Step("v0", "x0 + x1"), Step("v1", "v0[x2].sum(1)")), ("v1",))
HOOKED = Program(
    {"x0": torch.ones(2, 3)},
    (Step("v0", "x0 * 2"), Step("v1", "layer(v0)")),
    ("v0", "v1"),
    sources(),
    ("x0 = x0 + 1", "scale.register_forward_hook(hook_on_output)"),
)


def with_idiom(name: str, between: str = "") -> Program:
    steps = (Step("v0", "x0 * 2"), Step("v1", f"{name}(v0)"))
    return Program({"x0": torch.rand(3, 4)}, steps, ("v1",), sources(), (between,) if between else ())


@pytest.mark.parametrize("name", idioms())
def test_eager_runs_each_idiom_and_each_of_its_changes(name):
    for between in OF_STATE.get(name, ("",)):
        program = with_idiom(name, between)
        assert program.is_called_again
        assert f"def {name}(x):" in program.text
        results = two_calls(program.text, lambda fn: fn)(**program.inputs)
        assert len(results) == 4
        assert EagerRun(program).raised is None


def test_changes_are_of_idioms():
    assert OF_STATE.keys() <= set(idioms())


def test_each_side_has_its_own_state():
    program = with_idiom("appended")
    eager = two_calls(program.text, lambda fn: fn)
    first, second = eager(**program.inputs), eager(**program.inputs)
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(first[2] - first[0], program.inputs["x0"] * 2)


def test_a_program_has_only_what_it_needs():
    text = with_idiom("global_function", "globals()['helper'] = other_helper").text
    assert "def helper(value):" in text
    assert "def other_helper(value):" in text
    assert "class" not in text
    assert not PLAIN.is_called_again
    assert "between" not in PLAIN.text


def test_programs_with_changes_run_in_eager():
    drawn = [changed for seed in range(150) if (changed := with_state(PLAIN, random.Random(seed))) is not None]
    assert any(changed.context for changed in drawn)
    assert any("grown" in line for changed in drawn for line in changed.between)
    assert any("overlapping" in line for changed in drawn for line in changed.between)
    assert any(not changed.between and not changed.context for changed in drawn)
    for changed in drawn:
        two_calls(changed.text, lambda fn: fn)(**changed.inputs)


def test_overlapping():
    one, other = overlapping(torch.arange(6).view(2, 3))
    other[0, 0] = 7
    assert one[0, 1] == 7
    assert one.shape == other.shape == (2, 3)


@pytest.mark.long("it minimises a program, with a trial in a process for each step")
def test_a_guard_that_is_missing(tmp_path):
    """Dynamo has no guard for hooks by default, which PyTorch documents."""
    with Trials("cpu_avx2", Call()) as trials:
        (problem, *_) = trials.run(HOOKED).problems
        assert "hooks of modules" in doubt(HOOKED, problem, trials)
        right = replace(HOOKED, between=("scale.power = 2",))
        assert trials.run(right).problems == ()
        minimised = Minimiser(trials, lambda _line: None).minimise(HOOKED, problem)
    program = minimised.program
    assert program.between == ("scale.register_forward_hook(hook_on_output)",)
    assert [step.expression for step in program.steps] == [f"layer({next(iter(program.inputs))})"]
    assert minimised.backend == "eager"
    script = write(tmp_path / "script.py", minimised, "hook", device="cpu", options={})
    assert script.shows


@pytest.mark.long("it minimises a program, with a trial in a process for each step")
def test_random_numbers_are_those_of_eager(tmp_path):
    program = Program({"x0": torch.ones(64)}, (Step("v0", "torch.nn.functional.dropout(x0, 0.5)"),), ("v0",))
    with Trials("cpu_avx2", Call(config={"fallback_random": True})) as trials:
        assert trials.run(program).problems == ()
        trials.call = Call()
        (problem, *_) = trials.run(program).problems
        minimised = Minimiser(trials, lambda _line: None).minimise(program, problem)
    script = write(tmp_path / "script.py", minimised, "x", device="cpu", options={"fallback_random": True})
    assert script.shows is False
