"""Doubts: what cancels, what jumps, and 16-bit results with more bits are no findings."""

from __future__ import annotations

import pytest
import torch

from conformance.fuzzer.doubts import doubt
from conformance.minimisation.program import Program, Step
from conformance.minimisation.trial import Outcome
from conformance.numerics.problem import Problem, WrongValues


class FakeTrials:
    """`problems`: of a trial with other options."""

    def __init__(self, *problems):
        self.problems = problems

    def run(self, *_, **__):
        return Outcome(self.problems)


def problem(off_by, tensor="output", changes="number → number"):
    return Problem(tensor, "values", "wrong", "first", WrongValues({changes: 1}, 0.5, off_by), 9.0, 1e6)


def program(*expressions, dtype=torch.float32):
    steps = tuple(Step(f"v{number}", text) for number, text in enumerate(expressions))
    return Program({"x0": torch.tensor([0.3, 1.7, -2.1], dtype=dtype)}, steps, (steps[-1].name,))


@pytest.mark.parametrize(
    ("program", "off_by", "says"),
    [
        (program("x0 * 1000", "v0 - v0"), 1e-4, "a large number cancels"),
        (program("x0 * 1000", "v0 - v0"), 1.0, ""),
        (program("x0 / 0.3", "v0.floor()"), 1.0, "eager's own result jumps"),
        (program("x0.sin()"), 0.5, ""),
        (program("x0.sin()", dtype=torch.bfloat16), 0.5, "16-bit results keep more bits"),
    ],
    ids=["cancels", "a whole number", "jumps", "wrong", "16 bits"],
)
def test_doubts(program, off_by, says):
    assert doubt(program, problem(off_by), FakeTrials()).startswith(says)
    assert bool(says) == bool(doubt(program, problem(off_by), FakeTrials()))


def test_16_bits_that_stay_wrong_are_no_doubt():
    wrong = problem(0.5)
    assert doubt(program("x0.sin()", dtype=torch.bfloat16), wrong, FakeTrials(wrong)) == ""


def test_only_numbers_are_doubted():
    jump = program("x0 / 0.3", "v0.floor()")
    assert doubt(jump, problem(0.0, changes="number → NaN"), FakeTrials()) == ""
    assert doubt(jump, Problem("output", "strides", "wrong", "first"), FakeTrials()) == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("and compiled raised TypeError: no", "compiled raises too, but another exception"),
        ("and compiled raised nothing", ""),
        ("and compiled raised RuntimeError: no, after it changed x", ""),  # eager has not written to x
        ("and eager raised RuntimeError: no, after it changed x", "eager writes to an input before it raises"),
    ],
)
def test_exceptions(text, says):
    raised = Problem("", "raises", f"numerics['raises'] is 'RuntimeError', {text}", "first")
    found = doubt(program("x0 * 2"), raised, FakeTrials())
    assert found.startswith(says)
    assert bool(found) == bool(says)
