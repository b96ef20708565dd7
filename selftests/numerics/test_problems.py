"""Problems: all that a numerics check finds, as data; and faults beside a known one, which its excuses do not cover."""

import json
import re

import pytest
import torch
from checking import case_of

from conformance import NotEmulatedError, tensor
from conformance.cases.special_values import FLOATING
from conformance.cases.tolerance_policy import COTANGENT_CALLS
from conformance.documentation import page_text
from conformance.numerics import check, messages
from conformance.numerics.check import NumericsError, check_numerics
from conformance.numerics.problem import RULES, Excuse, Problem, WrongValues, unexcused
from conformance.numerics.wrong_values import wrong_values

NAN, INF = float("nan"), float("inf")


def problems_of(a_case, compiled):
    with pytest.raises(NumericsError) as caught:
        check_numerics(a_case, compiled, "cpu")
    assert all(problem.rule in RULES for problem in caught.value.problems)
    return caught.value.problems


def scaled(x, y):
    return x * y, x + y


SCALED = case_of(scaled, x=tensor(8, 12), y=tensor(8, 12), grad="x")


def relu(x):
    return torch.relu(x)


RELU = case_of(relu, x=tensor(64))


def nan_to_zero(x):
    return torch.where(x.isnan(), 0.0, torch.relu(x))


NAN_TO_ZERO = Excuse(("nan",), ("output",), "values", ("NaN → 0",), share=0.2)


def test_the_check_goes_on_after_a_problem():
    found = problems_of(SCALED, lambda x, y: (x * y, x + y + 1))
    assert {(problem.tensor, problem.rule) for problem in found} == {("output[1]", "values")}
    assert [problem.call for problem in found] == [
        "first",
        "second",
        *COTANGENT_CALLS,
        # The 64 smallest of the 96 results may be wrong by eager's largest error of them, which is above 1 there.
        *(group for group in FLOATING if group != "full_range"),
    ]
    assert found[0].wrong_values == WrongValues({"number → number": 96}, 1.0, pytest.approx(1.0, rel=1e-5))


def test_a_problem_of_one_group():
    (found,) = problems_of(RELU, nan_to_zero)
    assert found.name == f"nan: output: values ({found.wrong_values.changes['NaN → 0']} × NaN → 0)"
    assert unexcused([found], [NAN_TO_ZERO]) == []


def test_the_message_describes_the_first_call_and_names_the_others():
    with pytest.raises(NumericsError) as caught:
        check_numerics(RELU, lambda x: torch.relu(x) + 1, "cpu")
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("relu, first call: compiled disagrees with eager")
    assert f"other calls disagree too: second call, with other values, {', '.join(FLOATING)}" in lines


def test_what_compiled_raises_is_a_problem_beside_others():
    def raises_on_nan(x):
        if x.isnan().any():
            raise ValueError("planted")
        return torch.relu(x) * 2

    found = problems_of(RELU, raises_on_nan)
    assert [problem.rule for problem in found if problem.call == "nan"] == ["raises"]
    assert {problem.rule for problem in found if problem.call != "nan"} == {"values"}


def test_an_exception_alone_is_raised_as_it_is():
    def raises(x):
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        check_numerics(RELU, raises, "cpu")


def later(compiled):
    """The first call is right."""
    calls = []

    def function(x):
        calls.append(x)
        return torch.relu(x) if len(calls) == 1 else compiled(x)

    return function


FAULTS = {
    "all × 1.01": lambda x: nan_to_zero(x) * 1.01,
    "last element": lambda x: nan_to_zero(x).index_fill(0, torch.tensor([63]), 7.0),
    "another value for NaN": lambda x: torch.where(x.isnan(), 3.0, torch.relu(x)),
    "inf for NaN": lambda x: torch.where(x.isnan(), INF, torch.relu(x)),
    "more elements": lambda x: torch.where(x.isnan().any(), torch.relu(x).nan_to_num(0) * 0, torch.relu(x)),
    "dtype": lambda x: nan_to_zero(x).double(),
    "shape": lambda x: nan_to_zero(x)[None],
    "strides": lambda x: torch.stack([nan_to_zero(x)] * 2, 1)[:, 0],
    "offset": lambda x: torch.cat([x[:1], nan_to_zero(x)])[1:],
    "structure": lambda x: (nan_to_zero(x),),
    "requires_grad": lambda x: nan_to_zero(x).requires_grad_(),
    "changed input": lambda x: x.add_(1) * 0 + nan_to_zero(x - 1),
    "aliasing": lambda x: x.copy_(nan_to_zero(x)),
    "second call": later(lambda x: nan_to_zero(x) + 1),
}


@pytest.mark.parametrize("compiled", [pytest.param(function, id=name) for name, function in FAULTS.items()])
def test_a_fault_beside_a_known_one_is_not_excused(compiled):
    assert unexcused(problems_of(RELU, compiled), [NAN_TO_ZERO])


GRADIENT = Excuse(("first", "second"), ("gradient of x",), "values", ("number → number",), off_by=0.1, share=0.5)


@pytest.mark.parametrize(
    ("change", "excused"),
    [({}, True), ({"call": "nan"}, False), ({"tensor": "output"}, False), ({"rule": "strides"}, False)],
)
def test_call_tensor_and_rule_must_be_those_of_the_excuse(change, excused):
    values = WrongValues({"number → number": 3}, 0.2, 0.05)
    problem = {"tensor": "gradient of x", "rule": "values", "text": "", "call": "first", "wrong_values": values}
    assert GRADIENT.matches(Problem(**problem | change)) is excused


@pytest.mark.parametrize(
    ("call", "tensor", "error", "excused"),
    [
        ("*", "gradient of *weight", "for the shape (*, *, *", True),
        ("first", "gradient of net.a.weight", "strides are", True),
        ("*", "gradient of *weight", "strides are*for the shape", True),
        ("*", "gradient of *bias", "for the shape", False),
        ("*", "gradient of *weight", "for the shape (*, *, *, *, *", False),
        ("second", "*", "strides", False),
    ],
)
def test_a_star_stands_for_any_text(call, tensor, error, excused):
    problem = Problem("gradient of net.a.weight", "strides", "strides are (1, 2)\nfor the shape (8, 8, 3, 3)", "first")
    assert Excuse((call,), (tensor,), "strides", error=error).matches(problem) is excused


@pytest.mark.parametrize(
    "values",
    [
        WrongValues({"number → number": 3}, 0.6, 0.05),
        WrongValues({"number → number": 3}, 0.2, 0.2),
        WrongValues({"number → NaN": 1, "number → number": 2}, 0.2, 0.05),
    ],
    ids=["more elements", "a larger error", "another kind"],
)
def test_the_extent_is_bounded(values):
    assert not GRADIENT.matches(Problem("gradient of x", "values", "", "first", values))


@pytest.mark.parametrize(
    ("calls", "change", "excused"),
    [
        (("first",), {}, True),
        (("first",), {"call": "second"}, True),
        (("first",), {"call": "nan"}, True),
        (("nan", "inf"), {"call": "huge"}, True),
        (("nan", "inf"), {"call": "second"}, False),
        (("first",), {"tensor": "output"}, False),
        (("first",), {"rule": "strides"}, False),
    ],
)
def test_other_values_have_another_extent(calls, change, excused):
    values = WrongValues({"number → NaN": 3}, 0.9, 99.0)
    problem = {"tensor": "gradient of x", "rule": "values", "text": "", "call": "first", "wrong_values": values}
    excuse = Excuse(calls, ("gradient of x",), "values", ("number → number",), off_by=0.1, share=0.5)
    assert excuse.matches(Problem(**problem | change), other_values=True) is excused
    assert not excuse.matches(Problem(**problem | change))


def wide(values):
    return torch.tensor(values, dtype=torch.complex128 if isinstance(values[0], complex) else torch.float64)


@pytest.mark.parametrize(
    ("eager", "got", "changes", "off_by"),
    [
        ([1.0, NAN, INF], [2.5, 0.0, -INF], {"NaN → 0": 1, "inf → -inf": 1, "number → number": 1}, 1.5),
        ([0.0, -0.0], [-0.0, 3.0], {"0 → -0": 1, "-0 → number": 1}, 3.0),
        ([complex(1, NAN), 0j], [complex(INF, 1), 2j], {"NaN → inf": 1, "0 → number": 1}, 2.0),
        ([3, 0], [5, 1], {"0 → number": 1, "number → number": 1}, 2.0),
        ([True, False], [False, True], {"0 → number": 1, "number → 0": 1}, 1.0),
        ([1.5e308], [-1.5e308], {"number → number": 1}, INF),
        ([2**62], [2**62 + 1], {"number → number": 1}, 1.0),
    ],
    ids=["infinities", "zeros", "complex", "integers", "bool", "overflowing", "large integers"],
)
def test_kinds_of_wrong_values(eager, got, changes, off_by):
    eager, got = (torch.tensor(each) if isinstance(each[0], (bool, int)) else wide(each) for each in (eager, got))
    found = wrong_values(torch.ones(eager.shape, dtype=torch.bool), got, eager)
    assert found == WrongValues(changes, 1.0, off_by)


def test_problems_survive_json():
    for problem in problems_of(RELU, FAULTS["structure"]) + problems_of(RELU, FAULTS["more elements"]):
        assert Problem.from_json(problem.to_json()) == problem


def message_of(a_case, compiled):
    with pytest.raises(NumericsError) as caught:
        check_numerics(a_case, compiled, "cpu")
    return str(caught.value)


def exp(x):
    return torch.exp(x)


def exp_with_errors(x):
    """exp, up to 16 ulp off in some elements."""
    return torch.exp(x) * torch.where(x > 0, 1 + 8 * torch.finfo(x.dtype).eps, 1)


def test_the_message_names_a_factor_that_is_enough():
    without = dict.fromkeys(FLOATING, "only ordinary values here")
    message = message_of(case_of(exp, x=tensor(2000), numerics={"without": without}), exp_with_errors)
    (advice,) = [line for line in message.splitlines() if line.startswith("if compiled is right")]
    assert advice.endswith("; see `python -m conformance docs numerics#a-wider-tolerance`")
    proposed = json.loads(re.search(r"numerics=(\{.*\})\)", advice).group(1))
    assert set(proposed) == {"factor", "reason"}
    assert proposed["factor"] > 4
    check_numerics(case_of(exp, x=tensor(2000), numerics=proposed | {"without": without}), exp_with_errors, "cpu")
    narrower = proposed | {"factor": proposed["factor"] - 1, "without": without}
    with pytest.raises(NumericsError):
        check_numerics(case_of(exp, x=tensor(2000), numerics=narrower), exp_with_errors, "cpu")


def test_the_message_names_what_to_leave_out():
    assert '@case(…, numerics={"without": {"nan": "why"}})' in message_of(RELU, nan_to_zero)


@pytest.mark.parametrize(
    ("compiled", "rules"),
    [
        (lambda x: torch.relu(x) + 1, "values"),  # much too far away for a factor
        (lambda x: torch.relu(x).double(), "dtype"),
        (lambda x: torch.relu(x).reshape(8, 8), "shape"),
    ],
)
def test_no_key_excuses_what_is_plainly_wrong(compiled, rules):
    message = message_of(RELU, compiled)
    assert f"no key of numerics={{…}} excuses {rules}: if PyTorch is wrong, write a known failure" in message
    assert "say why" not in message


@pytest.mark.parametrize("place", [messages.WIDER, messages.KNOWN_FAILURES, messages.OPTIMIZERS])
def test_the_sections_that_messages_name_exist(place):
    name = re.fullmatch(r"`python -m conformance docs (\S+)`", place).group(1)
    assert page_text(name).startswith("##")


def step_of_a_new_optimizer(x):
    torch.optim.SGD([x], lr=0.1).step()


def test_the_message_says_how_to_step_where_the_function_makes_an_optimizer():
    again = Problem("", "recompiles", "2 frames were compiled again", "second")
    assert "take its state as inputs, and call torch.optim.adam.adam" in messages.advice(
        [again], 2, step_of_a_new_optimizer
    )
    assert '"recompiles": 2' in messages.advice([again], 2, relu)


@pytest.mark.parametrize(
    ("rules", "head", "line"),
    [
        (("recompiles", ""), "second call, with other values: the function is compiled again", ""),
        (("recompiles", "recompiles"), "the function is compiled again", "other calls are compiled again too: nan"),
        (("recompiles", "values"), "the function is compiled again", "other calls disagree too: nan"),
        (("values", "recompiles"), "compiled disagrees with eager", "other calls are compiled again too: nan"),
    ],
)
def test_a_recompile_is_no_disagreement(rules, head, line):
    calls = zip(rules, ("second", "nan"), strict=True)
    problems = [Problem("output", rule, "it is so", call) for rule, call in calls if rule]
    lines = check._message(problems, RELU, "", "").splitlines()
    assert lines[0].endswith(head)
    assert not line or line in lines


def test_an_undeclared_refusal_that_compiled_does_not_share():
    def broken(x):
        return x.view(3, 3)

    a_case = case_of(broken, x=tensor(4))
    [found] = problems_of(a_case, lambda x: x)[:1]
    assert (found.call, found.rule) == ("first", "raises")
    assert "eager raises RuntimeError: shape '[3, 3]'" in found.text
    assert "and compiled raised nothing" in found.text
    with pytest.raises(RuntimeError, match="shape"):
        check_numerics(a_case, broken, "cpu")

    def lacking(x):
        raise NotImplementedError("no kernel for the CPU")

    with pytest.raises(NotImplementedError):
        check_numerics(case_of(lacking, x=tensor(4)), lambda x: x, "cpu")


@pytest.mark.parametrize("error", [NotEmulatedError("a kernel that gets the address of memory"), MemoryError()])
def test_what_says_nothing_of_the_code_ends_the_check_in_calls_with_special_values_too(error):
    def compiled(x):
        if x.isnan().any():
            raise error
        return x.sin()

    with pytest.raises(type(error)):
        check_numerics(case_of(lambda x: x.sin(), x=tensor(4)), compiled, "cpu")
