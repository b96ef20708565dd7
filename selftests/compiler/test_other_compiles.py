"""Numerics with other inputs: planted mistakes of a compiler that only other strides, sizes or dtypes show."""

import contextlib

import pytest
from checking import case_of

from conformance import tensor
from conformance.capture.emulation.errors import NotEmulatedError
from conformance.capture.result import CaptureResult
from conformance.cases.opt_outs import opt_outs
from conformance.compiler.other_inputs import OtherCompiles
from conformance.devices.targets import targets
from conformance.numerics.audit import judge
from conformance.numerics.check import NumericsError, Observed, check_numerics

CPU = targets()["cpu_avx2"]


def others(case, compiled):
    """As the check of an item has them, with `compiled` for whatever is compiled."""

    def capture(request):
        return contextlib.nullcontext(CaptureResult(None, lambda **inputs: compiled(request.case.fn, **inputs)))

    return OtherCompiles(capture, case.fn, CPU, "deviceless", emulates=True).problems


def problems(case, compiled):
    """The names of the problems with other inputs alone: `case.fn` is right with the case's own inputs."""
    try:
        check_numerics(case, case.fn, "cpu", CPU.name, others=others(case, compiled))
    except NumericsError as error:
        return [problem.name for problem in error.problems]
    return []


def add(x, y):
    return x + y


ADD = {"x": tensor(5, 7), "y": tensor(5, 7)}


def raising(fn, x, y):
    if 0 in x.shape:
        raise AssertionError("no kernel")
    return fn(x, y)


@pytest.mark.parametrize(
    ("compiled", "found"),
    [
        (lambda fn, x, y: fn(x, y), []),
        (
            lambda fn, x, y: fn(x, y) if x.is_contiguous() else fn(x, y) + 1,
            ["x transposed: output: values (35 × number → number, off by 1)"],
        ),
        (lambda fn, x, y: fn(x, y).contiguous(), ["x transposed: output: strides"]),
        (raising, ["size 5 → 0: raises", "size 7 → 0: raises"]),
        (
            lambda fn, x, y: fn(x, y) if x.size(0) != 1 else fn(x, y).double(),
            ["size 5 → 1: output: dtype"],
        ),
    ],
)
def test_a_planted_mistake_is_found(compiled, found):
    assert problems(case_of(add, **ADD), compiled) == found


def test_code_for_any_size_is_compared():
    def capture(request):
        wrong = int(request.case.dynamic)
        return contextlib.nullcontext(CaptureResult(None, lambda x, y: x + y + wrong))

    case = case_of(add, **ADD)
    others = OtherCompiles(capture, case.fn, CPU, "deviceless", emulates=True).problems
    with pytest.raises(NumericsError, match="compiled for any size") as raised:
        check_numerics(case, case.fn, "cpu", CPU.name, others=others)
    assert [problem.call for problem in raised.value.problems] == ["compiled for any size"]


def test_compiled_must_refuse_what_eager_refuses():
    def product(a, b):
        return a @ b

    case = case_of(product, a=tensor(5, 6), b=tensor(6, 7))
    assert problems(case, lambda fn, a, b: fn(a, b)) == []
    found = problems(case, lambda fn, a, b: fn(a.float(), b.float()))
    assert found == ["a: f32 → f64: raises", "b: f32 → f64: raises"]


def test_what_eager_refuses_is_no_problem_of_other_sizes():
    def flat(x):
        return x.view(-1).amax()

    case = case_of(flat, x=tensor(5, 7))
    assert problems(case, lambda fn, x: fn(x)) == []


def test_a_case_says_why_other_inputs_do_not_apply():
    wrong = ADD | {"numerics": {"without": {"transposed": "why"}}}
    assert problems(case_of(add, **wrong), lambda fn, x, y: fn(x, y).contiguous()) == []


def test_what_an_ordinary_call_shows_is_not_compiled_again():
    case = case_of(add, **ADD)

    def refuse(*_):
        raise AssertionError("compiled again")

    with pytest.raises(NumericsError, match="first call"):
        check_numerics(case, lambda x, y: x + y + 1, "cpu", CPU.name, others=refuse)


def test_the_message_names_the_inputs():
    case = case_of(add, **ADD)
    with pytest.raises(NumericsError) as caught:
        check_numerics(case, case.fn, "cpu", CPU.name, others=others(case, lambda fn, x, y: fn(x, y).contiguous()))
    assert "other inputs (x transposed): compiled disagrees" in str(caught.value)
    assert "[x transposed] output: strides are (7, 1)" in str(caught.value)


@pytest.mark.parametrize(("spoilt", "count"), [(True, 1), (False, 0)])
def test_the_audit_judges_an_opt_out(spoilt, count):
    case = case_of(add, **ADD, numerics={"without": {"transposed": "why"}})
    compiled = (lambda fn, x, y: fn(x, y).contiguous()) if spoilt else (lambda fn, x, y: fn(x, y))
    observed = Observed(made_all_calls=True)
    (judgement,) = judge(case, case.fn, "cpu", CPU.name, observed, others(case, compiled))
    assert (judgement.opt_out.name, len(judgement.problems), judgement.not_judged) == ("transposed", count, "")
    assert opt_outs(case, CPU.name, "cpu") == [judgement.opt_out]


def test_what_is_not_emulated_is_no_problem():
    def missing(*_args, **_inputs):
        raise NotEmulatedError("an instruction")

    case = case_of(add, **ADD)
    comparison = check_numerics(case, case.fn, "cpu", CPU.name, others=others(case, missing))
    assert any("other inputs (x transposed): skipped: an instruction" in note for note in comparison.notes)


def test_what_eager_lacks_is_no_refusal():
    def lacking(x, y):
        if y.dtype != x.dtype:
            raise NotImplementedError("no kernel")
        return x + y

    assert problems(case_of(lacking, **ADD), lambda _fn, x, y: x + y) == []
