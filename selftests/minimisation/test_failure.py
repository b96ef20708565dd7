"""Whether another failure is the same one."""

from __future__ import annotations

import pytest

from conformance.minimisation.failure import Failure
from conformance.numerics.problem import Problem, WrongValues


def values(changes, tensor="output", error=0.0):
    return Problem(tensor, "values", "", "first", WrongValues(changes, 0.5, 1.0), error=error)


def raises(text):
    return Problem("", "raises", text)


SAME = [
    (
        raises("eager raises IndexError: index 3 of 2, and compiled raised nothing"),
        raises("numerics['raises'] is 'IndexError', and compiled raised nothing"),
    ),
    (values({"NaN → 0": 3}), values({"NaN → number": 1})),
    (values({"NaN → 0": 3}), values({"NaN → 0": 1, "number → number": 9})),
    (values({"NaN → inf": 1}, "output[1]"), values({"NaN → inf": 1}, "output")),
    (values({"number → number": 1}, error=100), values({"number → number": 1}, error=20)),
    (values({"0 → number": 1}, error=1), values({"number → 0": 1}, error=1)),
    (Problem("gradient of x", "strides", ""), Problem("gradient of y", "strides", "")),
    (Problem("output[0], x", "aliasing", ""), Problem("output, y", "aliasing", "")),
    (
        raises("eager raises E, and compiled raised nothing, after it changed x"),
        raises("eager raises E, and compiled raised nothing, after it changed y_1"),
    ),
    (raises("compiled raised E: index 5 of [2, 3]\n  more"), raises("compiled raised E: index 12 of [7]\n  other")),
]
OTHER = [
    (
        raises("eager raises IndexError: index 3 of 2, and compiled raised nothing"),
        raises("numerics['raises'] is 'IndexError', and compiled raised RuntimeError: index"),
    ),
    (
        raises("eager raises IndexError: index 3 of 2, and compiled raised nothing"),
        raises("numerics['raises'] is 'RuntimeError', and compiled raised nothing"),
    ),
    (values({"NaN → 0": 3}), values({"number → number": 3}, error=1e9)),
    (values({"number → number": 3}), values({"NaN → 0": 3})),
    (values({"number → number": 1}, error=100), values({"number → number": 1}, error=9)),
    (values({"NaN → 0": 3}), values({"NaN → 0": 3}, "gradient of x")),
    (Problem("output", "strides", ""), Problem("output", "dtype", "")),
    (raises("compiled raised E: a\n  more"), raises("compiled raised E: b\n  more")),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_failure(one, other):
    assert Failure.of(one).found_in([Problem("x", "shape", ""), other]) is other


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_failure(one, other):
    assert Failure.of(one).found_in([other]) is None


def test_the_text_names_tensor_rule_and_change():
    assert str(Failure.of(values({"NaN → 0": 3, "number → number": 5}))) == "output: values: NaN → number"
    assert str(Failure.of(raises("compiled raised E: [2, 3] at 0x7f"))) == "the call: raises: compiled raised E: N at N"
