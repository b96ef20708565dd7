"""`excess`: by how many ulp compiled's error may be above eager's; and the cases of ops/test_accuracy.py."""

import re
import sys

import pytest
import torch
from checking import case_of, fails_with
from suites import REPOSITORY

from conformance import every_value, tensor
from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.cases.tolerance_policy import Policy, PolicyError
from conformance.numerics.check import NumericsError, check_numerics
from conformance.numerics.limits import failing_calls
from conformance.ops import accuracy_limits

sys.path.insert(0, str(REPOSITORY / "benchmarks"))

EPSILON = torch.finfo(torch.float32).eps
CASES = {each.id.removeprefix("accuracy/"): each for each in cases_below([OPS / "test_accuracy.py"])}


def both(x):
    return {"exp": torch.exp(x), "sin": torch.sin(x)}


def worse(name, ulp):
    """`both`, where the result of this name is off by so many to twice as many ulp."""

    def function(x):
        results = both(x)
        return results | {name: results[name] * (1 + ulp * EPSILON)}

    return function


def with_excess(excess, **numerics):
    return case_of(both, x=every_value("f32", step=2**16), numerics={"excess": excess, **numerics})


def test_a_worse_function_fails_and_the_limit_is_named():
    declared = with_excess({"output['exp']": 3})
    check_numerics(declared, both, "cpu")
    check_numerics(declared, worse("exp", 1), "cpu")
    with pytest.raises(NumericsError) as error:
        check_numerics(declared, worse("exp", 8), "cpu")
    assert {problem.tensor for problem in error.value.problems} == {"output['exp']"}
    assert "rule          at most 3 ulp more than eager's error at that magnitude" in str(error.value)
    assert "no key of numerics={…} excuses values" in str(error.value)


def test_other_tensors_have_the_policy():
    declared = with_excess({"output['exp']": 0.5})
    check_numerics(declared, worse("sin", 2), "cpu")
    with pytest.raises(NumericsError, match=r"output\['exp'\]"):
        check_numerics(declared, worse("exp", 3), "cpu")


def test_an_error_of_the_inputs_is_no_excuse():
    """The result for 80 moves by 80 ulp when its input moves by 1: a formula that rounds the input passes
    without `excess`.
    """

    def rounded(x):
        return torch.exp(x * (1 + 2 * EPSILON))

    def exp(x):
        return torch.exp(x)

    large = tensor(2**10, low=60, high=80)
    check_numerics(case_of(exp, x=large), rounded, "cpu")
    fails_with(case_of(exp, x=large, numerics={"excess": {"output": 2}}), rounded, "at most 2 ulp")


def test_a_script_that_reproduces_a_failure_has_the_limit():
    declared = with_excess({"output['exp']": 3})
    with pytest.raises(NumericsError) as error:
        check_numerics(declared, worse("exp", 8), "cpu")
    (first, *_) = failing_calls(declared, "cpu_avx2", "cpu", error.value.problems)
    limit = first["limits"]["output['exp']"]
    assert (limit["factor"], limit["floor"], limit["sensitivity"]) == (1, 3, 0)


@pytest.mark.parametrize(
    ("numerics", "text"),
    [
        ({"excess": 1}, "numerics['excess'] is 1; it must be a dict of tensor → ulp"),
        ({"excess": {"output": "1"}}, "numerics['excess']['output'] is '1'; it must be a number of ulp, 0 or more"),
        ({"excess": {"output": -1}}, "it must be a number of ulp, 0 or more"),
        ({"excess": {"output": float("inf")}}, "it must be a number of ulp, 0 or more"),
        ({"excess": {"output": 5}, "reason": "why"}, "= 5 is above 4, and the reason has no measurement: 'why'"),
        ({"limit": 1}, "has the unknown key 'limit'"),
    ],
)
def test_a_wrong_excess_is_refused(numerics, text):
    with pytest.raises(PolicyError, match=re.escape(text)):
        Policy.from_declaration(numerics)


# The cases ------------------------------------------------------------------------------------------------------------


def test_each_operator_of_the_cases_is_a_row_with_its_limit():
    pytest.importorskip("mpmath")
    from accuracy_operators import OPERATORS

    functions = {operator.name for operator in OPERATORS}
    assert {operator for operator, _ in accuracy_limits.LIMITS} <= functions
    for name in ("unary", "binary"):
        declared = CASES[name].numerics["excess"]
        rows = {tensor.removeprefix("output['").removesuffix("']") for tensor in declared}
        assert rows <= functions
        assert declared == {f"output['{row}']": accuracy_limits.excess(row, "f32") for row in rows}
        assert set(CASES[name].fn(**CASES[name].build(0))) == rows


@pytest.mark.parametrize(("name", "row"), [("unary", "exp"), ("binary", "pow")])
def test_a_planted_error_of_a_row_fails_its_case(name, row):
    case = CASES[name]

    def planted(**arguments):
        results = case.fn(**arguments)
        return results | {row: results[row] * (1 + 4 * EPSILON)}

    check_numerics(case, case.fn, "cpu", "cpu_avx2")
    with pytest.raises(NumericsError) as error:
        check_numerics(case, planted, "cpu", "cpu_avx2")
    assert {problem.tensor for problem in error.value.problems} == {f"output['{row}']"}
    assert f"at most {accuracy_limits.excess(row, 'f32'):g} ulp more than eager's" in str(error.value)
