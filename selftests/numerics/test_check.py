"""The numerics check: each kind of error fails with a message that describes it, and correct results pass."""

import re

import pytest
import torch
from checking import case_of

from conformance import image, tensor
from conformance.capture import invoke
from conformance.cases import run_values
from conformance.cases.run_values import RunValues
from conformance.cases.special_values import FLOATING
from conformance.cases.tolerance_policy import COTANGENT_CALLS, Policy, PolicyError
from conformance.compiler.case_request import program_of
from conformance.containers import copy_to
from conformance.devices.environment import torch_build
from conformance.devices.targets import targets
from conformance.numerics.check import NumericsError, check_numerics
from conformance.numerics.measurement import measure
from conformance.numerics.problem import ORDINARY_CALLS


def exp(x):
    return torch.exp(x)


def product(x, y):
    return x @ y


EXP = case_of(exp, x=tensor(20, 7))
EXP_BACKWARD = case_of(exp, x=tensor(20, 7), grad=True)
PRODUCT = case_of(product, x=tensor(20, 30), y=tensor(30, 10), grad="x")


def fails(a_case, compiled, *texts):
    with pytest.raises(NumericsError) as caught:
        check_numerics(a_case, compiled, torch.device("cpu"))
    for text in texts:
        assert text in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "c64"])
def test_eager_agrees_with_itself(dtype):
    a_case = case_of(product, x=tensor(20, 30), y=tensor(30, 10), grad=True, dtype=dtype)
    comparison = check_numerics(a_case, a_case.fn, "cpu")
    calls = len((*ORDINARY_CALLS, *COTANGENT_CALLS, *FLOATING)) - (dtype == "f64")  # which has no values far from 0
    assert [name for _, name, _ in comparison.measurements].count("output") == calls
    assert [name for _, name, _ in comparison.measurements].count("gradient of y") == calls


def test_other_order_of_summation_is_within_the_policy():
    halves = lambda x, y: x[:, ::2] @ y[::2] + x[:, 1::2] @ y[1::2]  # noqa: E731
    check_numerics(PRODUCT, halves, "cpu")


# Errors that the check finds ------------------------------------------------------------------------------------------


def test_a_few_ulp_too_many_and_the_message():
    def compiled(x):
        y = torch.exp(x)
        y[3, 4] *= 1 + 40 * torch.finfo(x.dtype).eps
        return y

    text = fails(EXP, compiled, "check/exp, first call: compiled disagrees with eager")
    x = EXP.build(0)["x"][3, 4].item()
    assert f"output (float32): 1 of 140 elements are wrong; the worst at [3, 4]\n  inputs there  x = {x!r}\n" in text
    assert re.search(r"\n  got +\S+\n  eager +\S+\n  float64 +\S+\n  error +\S+ ulp, allowed \S+ ulp \(eager's", text)
    assert 'to reproduce: pytest "' in text
    assert 'test_check.py::test_exp[]" --checks numerics' in text


def test_the_target_is_part_of_the_reproduction():
    with pytest.raises(NumericsError, match=r"::test_exp\[cpu_avx2\]"):
        check_numerics(EXP, lambda x: x, "cpu", target="cpu_avx2")


def test_the_seed_is_part_of_the_reproduction(monkeypatch):
    with pytest.raises(NumericsError, match=r"--checks numerics$"):
        check_numerics(EXP, lambda x: x, "cpu")
    monkeypatch.setattr(run_values, "_used", [RunValues(seed=2)])
    with pytest.raises(NumericsError, match=r"--checks numerics --seed 2"):
        check_numerics(EXP, lambda x: x, "cpu")


def test_a_small_element_is_not_excused_by_the_error_of_a_large_one():
    def wide(x):
        return torch.exp(x)

    a_case = case_of(wide, x=tensor(400, low=-40, high=40))

    def compiled(x):
        y = torch.exp(x)
        return torch.where(y < 1e-12, y * 1.001, y)

    fails(a_case, compiled, "elements are wrong")


def test_what_only_moves_data_must_be_exact():
    def flip(x):
        return x.flip(-1)

    a_case = case_of(flip, x=image(3, size=16, dtype="f32"))
    check_numerics(a_case, a_case.fn, "cpu")
    fails(a_case, lambda x: x.flip(-1) * (1 + 2**-23), "eager equals float64 in every element")


def test_exact_tells_zeros_apart():
    def negate(x):
        return -(x * 0)

    a_case = case_of(negate, x=tensor(4, low=1, high=2), numerics={"exact": True})
    fails(a_case, lambda x: x * 0, "got           0.0", "eager         -0.0", "bit for bit")


@pytest.mark.parametrize("dtype", ["u8", "i16", "i64", "bool"])
def test_integers_and_booleans_off_by_one(dtype):
    def same(x):
        return x.clone()

    a_case = case_of(same, x=tensor(6), dtype=dtype)
    check_numerics(a_case, a_case.fn, "cpu")

    def compiled(x):
        y = x.clone()
        y[5] = ~y[5] if x.dtype == torch.bool else y[5] + 1
        return y

    fails(a_case, compiled, "1 of 6 elements are wrong; the worst at [5]", "bit for bit")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_inf_never_pass(value):
    def compiled(x):
        y = torch.exp(x)
        y[0, 0] = value
        return y

    fails(EXP, compiled, f"got           {value}", "NaN and inf must be in the same elements as in eager")


def test_eagers_nan_must_be_there_too():
    def log(x):
        return torch.log(x)

    a_case = case_of(log, x=tensor(20))
    check_numerics(a_case, a_case.fn, "cpu")
    fails(a_case, lambda x: torch.log(x.abs()), "eager         nan")
    fails(a_case, lambda x: torch.where(x < 0, torch.inf, torch.log(x)), "got           inf")


def test_all_nan_is_no_agreement_with_numbers():
    fails(EXP, lambda x: torch.exp(x) * float("nan"), "140 of 140 elements are wrong")


@pytest.mark.parametrize(
    ("compiled", "text"),
    [
        (lambda x: torch.exp(x).double(), "output: dtype is float64, eager's is float32"),
        (lambda x: torch.exp(x)[:, :-1], "output: shape is (20, 6), eager's is (20, 7)"),
        (lambda x: torch.exp(x).t().contiguous().t(), "output: strides are (1, 20), eager's are (7, 1)"),
        (lambda x: (torch.exp(x),), "its structure is tuple(Tensor), eager's is Tensor"),
        (lambda x: x.sum() if x.numel() == 0 else None, "its structure is None, eager's is Tensor"),
        (lambda x: torch.exp(x).requires_grad_(), "output: requires_grad is True, eager's is False"),
        (lambda x: torch.cat([x, torch.exp(x)])[20:], "output: storage offset is 140, eager's is 0"),
        (lambda x: x.exp_(), "output shares storage with x, and in eager it does not"),
        (lambda x: (torch.exp(x), x.mul_(2))[0], "x after the call (float32): 140 of 140 elements are wrong"),
    ],
)
def test_more_than_values(compiled, text):
    fails(EXP, compiled, text)


def test_insignificant_strides_are_a_note():
    def column(x):
        return torch.exp(x)

    a_case = case_of(column, x=tensor(5, 1))
    comparison = check_numerics(a_case, lambda x: torch.exp(x).as_strided((5, 1), (1, 7)), "cpu")
    assert len(comparison.notes) == 2 + len(FLOATING)
    assert "insignificant" in comparison.notes[0]


def test_a_lost_alias():
    def view(x):
        return x[1:]

    a_case = case_of(view, x=tensor(6))
    text = fails(a_case, lambda x: x[1:].clone(), "storage offset is 0, eager's is 1")
    assert "output does not share storage with x, and in eager it does" in text


def test_mutation_that_is_lost_or_spills():
    def add_one(x):
        return x.add_(1)

    a_case = case_of(add_one, x=tensor(30, 30, layout="sliced"))
    check_numerics(a_case, a_case.fn, "cpu")
    fails(a_case, lambda x: x + 1, "x after the call", "does not share storage")

    def spills(x):
        x.as_strided((1,), (1,), 0).fill_(7)
        return x.add_(1)

    fails(a_case, spills, "x: the call wrote to the input's storage outside of the input's elements")


def test_a_constant_that_was_baked_in_shows_at_the_second_call():
    first = torch.exp(EXP.build(0)["x"])
    fails(EXP, lambda x: first.view_as(x).clone(), "second call, with other values")


class _Exp(torch.autograd.Function):
    scale = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.exp(x))
        return torch.exp(x)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return {1.0: y * grad, 1.001: y * grad * 1.001, 0.0: y}[_Exp.scale]


@pytest.mark.parametrize("scale", [1.001, 0.0], ids=["too large", "ignores the cotangent"])
def test_a_wrong_gradient(scale, monkeypatch):
    check_numerics(EXP_BACKWARD, _Exp.apply_by_name, "cpu")
    monkeypatch.setattr(_Exp, "scale", scale)
    fails(EXP_BACKWARD, _Exp.apply_by_name, "gradient of x (float32): ", "inputs there  x = ")


_Exp.apply_by_name = staticmethod(lambda x: _Exp.apply(x))  # noqa: PLW0108 - check_numerics passes x by name


def test_a_gradient_that_is_missing():
    def some(x, y):
        return x * y

    a_case = case_of(some, x=tensor(4), y=tensor(4), grad=True)
    fails(a_case, lambda x, y: x * y.detach(), "gradient of y: missing, and eager computes one")


def test_messages_say_where_the_wrong_ones_lie():
    def compiled(x):
        y = torch.exp(x)
        y[:, 6] = 0
        return y

    fails(EXP, compiled, "20 of 140 elements are wrong, all with index 6 of dimension 1")

    def tail(x):
        y = torch.exp(x)
        y.view(-1)[-9:] = 0
        return y

    fails(EXP, tail, "9 of 140 elements are wrong, the last 9 of 140 in order")


def test_what_compiling_raises_is_passed_on():
    def compiled(x):
        raise SyntaxError("no kernel")

    with pytest.raises(SyntaxError, match="no kernel"):
        check_numerics(EXP, compiled, "cpu")


# Float64 -------------------------------------------------------------------------------------------------------------


def test_dtypes_that_the_function_asks_for_are_widened():
    def casts(x):
        return (x / 255).half().float().mean(dtype=torch.float32)

    a_case = case_of(casts, x=tensor(60, dtype="u8"))
    # Eager rounds to f16 in between. A compiler may leave that out: a result nearer to float64 is right.
    check_numerics(a_case, lambda x: (x / 255).mean(), "cpu")


def test_a_sum_that_cancels_is_measured_by_its_sensitivity():
    def total(x):
        return x.sum()

    a_case = case_of(total, x=tensor(64, 1000, dtype="f32"))
    check_numerics(a_case, lambda x: x.view(8, -1).cumsum(1)[:, -1].sum(), "cpu")
    fails(a_case, lambda x: x.sum() * 1.001, "1 of 1 elements are wrong")


def test_a_gradient_that_cancels_is_measured_by_its_sensitivity():
    class Total(torch.autograd.Function):
        """40 rows of x. The backward adds up cotangents one by one, eager in pairs. `spoilt`: factor of an error."""

        @staticmethod
        def forward(ctx, x, spoilt):
            ctx.spoilt = spoilt
            return x.expand(40, 500).clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.flip(0).cumsum(0)[-1] * ctx.spoilt, None

    def rows(x):
        return x.expand(40, 500).clone()

    a_case = case_of(rows, x=tensor(500, dtype="f32"), grad=True)
    check_numerics(a_case, lambda x: Total.apply(x, 1.0), "cpu")
    fails(a_case, lambda x: Total.apply(x, 1.0001), "gradient of x (float32): ")


def test_autocast_may_round_each_factor_of_a_product():
    """Errors of 1 ulp of bfloat16 in the factors, rounded in eager as well, are no disagreement; 4 ulp are one."""

    def wide_product(x, y):
        return (x @ y).float()

    def other(ulp):
        def compiled(x, y):
            signs = torch.where(torch.arange(x.numel()).view(x.shape) % 3 == 0, 1.0, -1.0)
            return ((x * (1 + signs * ulp * torch.finfo(torch.bfloat16).eps)) @ y).float()

        return compiled

    numerics = {"without": dict.fromkeys(FLOATING, "ordinary calls alone")}
    a_case = case_of(wide_product, x=tensor(20, 30), y=tensor(30, 10), mode="autocast", numerics=numerics)
    check_numerics(a_case, other(1), "cpu")
    fails(a_case, other(4), "output (float32): ")
    plain = case_of(wide_product, x=tensor(20, 30), y=tensor(30, 10), numerics=numerics)
    fails(plain, other(1), "output (float32): ")


def test_a_written_input_that_cancels_is_measured_by_its_sensitivity():
    def step(x, y):
        x.sub_(1.1 * y)

    def other(scale):
        def compiled(x, y):
            x.copy_((x / 1.1 - y * scale) * 1.1)

        return compiled

    a_case = case_of(step, x=tensor(400, low=1, high=1.001), y=tensor(400, low=0.909, high=0.9091))
    check_numerics(a_case, other(1.0), "cpu")
    fails(a_case, other(1.00001), "x after the call (float32): ")


@pytest.mark.parametrize("frozen", [False, True])
def test_convolutions_are_held_without_tf32(frozen, monkeypatch):
    """Also where PyTorch's test utilities are imported: they forbid assignments to such settings."""
    from conformance.capture.tf32 import without_tf32

    # torch.backends is an object in place of the module that has the functions.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", not frozen)
    before = torch.backends.cudnn.allow_tf32
    with without_tf32("cpu"):
        assert torch.backends.cudnn.allow_tf32 == before
    with without_tf32("cuda:0"):
        assert not torch.backends.cudnn.allow_tf32
        assert torch.backends.flags_frozen() == frozen
    assert torch.backends.cudnn.allow_tf32 == before
    assert torch.backends.flags_frozen() == frozen


def test_a_function_without_a_float64_reference_says_so():
    def only_f32(x):
        if x.dtype != torch.float32:
            raise TypeError("only float32")
        return x.exp()

    a_case = case_of(only_f32, x=tensor(4))
    fails(a_case, only_f32, "its float64 reference raises TypeError: only float32", "'reference': 'eager'")
    stated = case_of(only_f32, x=tensor(4), numerics={"reference": "eager", "reason": "a kernel for float32"})
    check_numerics(stated, only_f32, "cpu")
    fails(stated, lambda x: x.exp() * 1.0001, "4 of 4 elements are wrong")


def test_raising_where_eager_raises():
    def broken(x):
        return x.view(3, 3)

    a_case = case_of(broken, x=tensor(4), numerics={"raises": "RuntimeError"})
    check_numerics(a_case, a_case.fn, "cpu")
    fails(a_case, lambda x: x, "compiled raised nothing")

    def late(x):
        x.zero_()
        return x.view(3, 3)

    fails(a_case, late, "after it changed x")


def test_the_type_is_that_behind_the_compilers_wrappers():
    def backend(_graph, _inputs):
        raise KeyError("buf7")

    def broken(x):
        return x.view(3, 3)

    def one(x):
        return torch.nn.functional.batch_norm(x, None, None, training=True)

    def raised(fn, *args, **how):
        torch._dynamo.reset()
        with pytest.raises(Exception) as caught:
            torch.compile(fn, **how)(*args)
        return caught.value

    tracing = raised(broken, torch.ones(4))
    assert invoke.is_of_type(tracing, "RuntimeError")
    assert (
        invoke.error_text(tracing)
        == "TorchRuntimeError (of RuntimeError): shape '[3, 3]' is invalid for input of size 4"
    )
    failing = raised(lambda x: x + 1, torch.ones(4), backend=backend)
    assert isinstance(failing, RuntimeError)
    assert not invoke.is_of_type(failing, "RuntimeError"), (
        "a failure of the compiler is no RuntimeError of the function"
    )
    assert not invoke.is_of_type(failing, "KeyError"), "`except KeyError` would not catch it"
    assert invoke.error_text(failing) == "BackendCompilerFailed (of KeyError): 'buf7'"
    value = raised(one, torch.ones(1, 4))
    assert not invoke.is_of_type(value, "ValueError")
    assert not invoke.is_of_type(value, "RuntimeError")
    # Before torch 2.13, the wrapper is a RuntimeError, and `except LookupError` would not catch it.
    is_caught = torch_build().release >= (2, 13)
    assert invoke.is_of_type(raised(lambda x: x.sum(5), torch.ones(4)), "LookupError") == is_caught


# Policy --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numerics", "text"),
    [
        ({"factor": 100}, "wider than the policy; say why"),
        ({"factor": 16, "reason": "eager adds in pairs"}, "is above 8, and its reason has no measurement"),
        ({"factor": "much"}, "numerics['factor'] is 'much'; it must be a number of 0 or more"),
        ({"factor": float("nan"), "reason": "why"}, "it must be a number of 0 or more"),
        ({"exact": True, "factor": 1}, "has both 'exact' and 'factor'; leave one out"),
        ({"exact": 1}, "it must be True or False"),
        ({"tolerance": 1e-3}, "has the unknown key 'tolerance'; known are exact, factor"),
        ({"reference": "eager"}, "= 'eager' needs a 'reason'"),
        ({"reference": "f128"}, "is 'f128'; it must be 'float64' or 'eager'"),
    ],
)
def test_a_malformed_policy_is_refused(numerics, text):
    with pytest.raises(PolicyError, match=re.escape(text)):
        Policy.from_declaration(numerics)


def test_a_factor_is_used():
    def compiled(x):
        return torch.exp(x) * (1 + 30 * torch.finfo(x.dtype).eps)

    fails(EXP, compiled)
    wider = case_of(exp, x=tensor(20, 7), numerics={"factor": 1000, "reason": "an approximation: measured 30 ulp"})
    check_numerics(wider, compiled, "cpu")


def test_float64_nan_where_eager_is_finite_is_no_excuse():
    one = torch.ones(3)
    measurement = measure(one * 2, one, torch.full((3,), torch.nan, dtype=torch.float64), Policy())
    assert measurement.wrong_count == 3


# Placing -------------------------------------------------------------------------------------------------------------


def test_placed_keeps_everything_but_the_storage():
    base = torch.arange(24.0).view(4, 6)
    one, other = base[1:, 2:], base.t()
    one_copy, other_copy, number = copy_to((one, other, 3), "cpu")
    assert number == 3
    assert (one_copy.stride(), one_copy.storage_offset()) == ((6, 1), 8)
    assert torch.equal(one, one_copy)
    assert one_copy.untyped_storage().nbytes() == base.untyped_storage().nbytes()
    assert one_copy.data_ptr() != one.data_ptr()
    other_copy.zero_()
    assert not one_copy.any(), "copies share storage like the originals"
    assert one.all(), "copies do not share storage with the originals"
    leaf = copy_to(torch.ones(3, requires_grad=True), "cpu", widen=True)
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert leaf.dtype == torch.float64
    assert copy_to(torch.ones(1).expand(5), "cpu").stride() == (0,)


@pytest.mark.parametrize("mode", ["no_grad", "inference", "autocast"])
def test_the_code_of_the_capture_serves_the_check(mode):
    """In each call mode: inputs that inference mode makes are others than those of the capture."""
    a_case = case_of(product, x=tensor(20, 30), y=tensor(30, 10), mode=mode)
    compiled = torch.compile(a_case.fn, backend="eager")
    invoke.call(program_of(a_case, targets()["cpu_avx2"]), compiled, "cpu")
    check_numerics(a_case, compiled, "cpu", already_called=True)
