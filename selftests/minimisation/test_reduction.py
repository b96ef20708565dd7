"""The reduction, with an oracle that needs no compiler: a program fails if it has certain steps."""

from __future__ import annotations

import pytest
import torch
from programs import program_of

from conformance.minimisation.program import Program, Step
from conformance.minimisation.reduction import OutOfTrialsError, Reduction
from conformance.numerics.problem import Problem


def function(x, y):
    for index in range(9):
        x = torch.cos(x) + index
        y = torch.sin(y) * 2
    bad = torch.nn.functional.softshrink(x + y)
    other = torch.relu(y)
    for index in range(4):
        bad = bad.abs() - index
    return other, bad.exp()


class Oracle:
    """Says that a program fails if all `words` are in it, and its inputs are as `needs` says."""

    def __init__(self, *words, needs=lambda _: True, most=10**6):
        self._words, self._needs, self._most, self.count = words, needs, most, 0

    def __call__(self, program):
        if self.count >= self._most:
            raise OutOfTrialsError
        self.count += 1
        if all(word in program.text for word in self._words) and self._needs(program.inputs):
            return Problem("output[1]" if len(program.outputs) > 1 else "output", "values", "")
        return None


@pytest.fixture(scope="module")
def program():
    made = program_of(function, x=torch.rand(4, 6).T, y=torch.rand(6, 4, dtype=torch.float64, requires_grad=True))
    assert len(made.steps) > 45
    return made


def reduced(program, oracle):
    reduction = Reduction(program, oracle(program), oracle)
    reduction.run()
    return reduction


@pytest.mark.parametrize(
    ("needed", "between", "context"),
    [
        ("first = 1", ("first = 1",), ""),
        ("second = 2", ("second = 2",), ""),
        ("no_grad", (), "torch.no_grad()"),
        ("x0", (), ""),
    ],
)
def test_what_changes_between_two_calls_is_reduced(needed, between, context):
    steps = (Step("v0", "x0 * 2"),)
    two = Program({"x0": torch.ones(2)}, steps, ("v0",), {}, ("first = 1", "second = 2"), "torch.no_grad()")
    reduction = reduced(two, Oracle(needed, "x0 * 2"))
    assert (reduction.program.between, reduction.program.context) == (between, context)


def test_one_step_is_left(program):
    oracle = Oracle("softshrink")
    made = reduced(program, oracle).program
    assert [step.expression.partition("(")[0] for step in made.steps] == ["torch._C._nn.softshrink"]
    assert oracle.count < 40


def test_two_steps_far_apart_are_left(program):
    oracle = Oracle("softshrink", ".exp()", "- 2")
    made = reduced(program, oracle).program
    assert len(made.steps) == 3
    assert oracle.count < 100


def test_inputs_become_simple(program):
    made = reduced(program, Oracle("softshrink")).program
    [value] = made.inputs.values()
    assert (value.dtype, value.numel(), value.requires_grad) == (torch.float32, 1, False)


def test_what_the_failure_needs_of_the_inputs_stays(program):
    def needs(inputs):
        return any(
            value.dtype == torch.float64 and value.requires_grad and value.dim() == 2 and value.shape[0] >= 3
            for value in inputs.values()
        )

    made = reduced(program, Oracle("softshrink", needs=needs)).program
    [value] = made.inputs.values()
    assert value.shape == (3, 1)


def test_a_program_that_cannot_get_smaller_stays(program):
    oracle = Oracle("softshrink", needs=lambda inputs: set(inputs) == set(program.inputs))
    made = reduced(program, oracle).program
    assert set(made.inputs) == set(program.inputs)


def test_the_smallest_so_far_counts_when_there_are_no_more_trials(program):
    oracle = Oracle("softshrink", most=6)
    made = reduced(program, oracle).program
    assert oracle.count == 6
    assert len(made.steps) < len(program.steps)
    assert "softshrink" in made.text
