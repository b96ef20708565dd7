"""@case: the ids that its docstring promises, and what it refuses."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest

from conformance import case, tensor
from conformance.cases.case import CaseError


def test_x(x, beta):
    return x * beta


test_x.__test__ = False  # declared here, never run


def test_the_example_of_the_docstring_declares_the_cases_that_it_lists():
    text = inspect.cleandoc(case.__doc__ or "")
    example = re.search(r"    @case\(.*?\n    def test_softmax.*?\n        return [^\n]*\n", text, re.DOTALL)
    names = {"case": case, "tensor": tensor}
    exec(compile(textwrap.dedent(example[0]), __file__, "exec"), names)  # noqa: S102 - our own docstring
    promised = re.findall(r"\bsoftmax-[\w-]+(?:forward|backward)\b(?!-cuda)", text)
    assert ["-".join(each.id.split("/")[1:]) for each in names["test_softmax"].cases] == promised


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"beta": []}, "axis 'beta' has no values; give it at least one"),
        ({"beta": ["a b"]}, "axis 'beta': the label 'a b' cannot be part of a test id; use letters"),
        ({"beta": [1, 1.0]}, "axis 'beta' has the label 'beta1' twice; remove one of the two values, or label"),
        ({"beta": 1, "vary": "all"}, "test_x: vary is 'all'; it must be 'product' or 'one_at_a_time'"),
        ({"beta": 1, "mode": "grad"}, "test_x: mode is 'grad'; it must be one of plain, no_grad, "),
        ({"beta": 1, "grad": "y"}, "test_x: grad names 'y', which is no input; the inputs are x"),
        ({"beta": [1, 2], "also": [{"gamma": 3}]}, "test_x: also= names the axis 'gamma'; the axes are beta"),
        ({"beta": [1, 2], "also": [{"beta": 3}]}, "test_x: also= wants beta=3; the labels of beta are beta1, beta2"),
        ({"beta": [1, 2], "also": [{"beta": 2}]}, "beta2; also= repeats a combination: leave it out there"),
    ],
)
def test_a_wrong_declaration(declared, message):
    with pytest.raises(CaseError, match=re.escape(message)):
        case(x=tensor(4), **declared)(test_x)


def test_a_value_of_an_inputs_axis_may_leave_the_property_to_the_case() -> None:
    @case(x=tensor(4), mask=tensor(4, dtype={"boolean": "bool", "additive": None}), dtype=["f16"])
    def test_masked(x, mask):
        return x + mask

    dtypes = {each.id.partition("-")[2]: each.choices["mask"]["dtype"] for each in test_masked.cases}
    assert dtypes == {"boolean-f16": "bool", "additive-f16": "f16"}


def test_a_gradient_that_no_input_can_have():
    with pytest.raises(CaseError, match=r"test_x: grad is True, and no input can have a gradient \(x: i64\)"):
        case(x=tensor(4, dtype="i64"), beta=1, grad=True)(test_x)
