"""Planted errors of the kinds that compilers make: the check finds each and describes it."""

import pytest
import torch
import torch.nn.functional as F
from checking import case_of, fails_with

from conformance import edges, tensor
from conformance.cases.case import CaseError
from conformance.cases.tolerance_policy import validate
from conformance.numerics.check import check_numerics


def exp(x):
    return torch.exp(x)


def spoilt(*index):
    """A function that computes exp, with an error in the elements at `index`."""

    def compiled(x):
        y = torch.exp(x)
        y[index] += 1
        return y

    return compiled


ROWS = case_of(exp, x=tensor(8, 100))


@pytest.mark.parametrize(
    ("compiled", "text"),
    [
        (
            spoilt(..., slice(-4, None)),
            "32 of 800 elements are wrong, all with an index of dimension 1 among the last 4",
        ),
        (spoilt(slice(None), 3), "8 of 800 elements are wrong, all with index 3 of dimension 1"),
        (spoilt(2), "100 of 800 elements are wrong, all with index 2 of dimension 0"),
        (spoilt(..., slice(5, None, 16)), "all with an index of dimension 1 among every 16th from 5"),
        (spoilt(..., slice(16, 32)), "all with an index of dimension 1 among 16 to 31 of 100"),
        (spoilt(slice(1, 3), 7), "all with an index of dimension 0 among 1 to 2 of 8 and index 7 of dimension 1"),
    ],
)
def test_where_wrong_elements_lie(compiled, text):
    fails_with(ROWS, compiled, text)


def test_every_16th_of_a_flat_tensor():
    fails_with(
        case_of(exp, x=tensor(200)),
        spoilt(slice(0, None, 16)),
        "13 of 200 elements are wrong, every 16th from 0 in order",
    )


def test_a_broadcast_input_is_shown_too():
    def product(x, y):
        return x * y

    fails_with(case_of(product, x=tensor(20, 30), y=tensor(30)), lambda x, y: x * y * 2, "inputs there  x = ", ", y = ")


# Special values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "compiled", "groups"),
    [
        (torch.exp, lambda x: torch.exp(x).nan_to_num(0, float("inf"), 0), "(nan)"),
        (torch.relu, lambda x: torch.where(x > 0, x, 0.0), "(nan)"),
        (torch.neg, lambda x: torch.where(x.abs() < torch.finfo(x.dtype).tiny, 0.0, -x), "(denormals)"),
        (F.relu6, lambda x: torch.where(x == 6, 5.0, F.relu6(x)), "(edges)"),
        (torch.round, lambda x: torch.floor(x + 0.5), "(edges, ties)"),
        (torch.reciprocal, lambda x: 1 / (x + 0.0), "(edges)"),  # -0 becomes 0
        (torch.tanh, lambda x: 1 - 2 / (torch.exp(2 * x.double()).float() + 1), ""),
        (
            torch.sigmoid,
            lambda x: torch.exp(x.double()).float() / (1 + torch.exp(x.double()).float()),
            "(inf, huge, far, exponents, full_range)",
        ),
        (lambda x: x.argmax(-1), lambda x: x.shape[-1] - 1 - x.flip(-1).argmax(-1), "(nan, inf, ties)"),
        (lambda x: x.amax(-1), lambda x: x.nan_to_num(-9.0, float("inf"), -float("inf")).amax(-1), "(nan)"),
        (lambda x: x.amax(-1), lambda x: x.amax(-1).relu(), "(negative)"),
        (lambda x: x.amin(), lambda x: x.amin().clamp(max=0.0), "special values (positive"),
        (lambda x: x.var(-1), lambda x: ((x * x).mean(-1) - x.mean(-1) ** 2) * (50 / 49), "far"),
    ],
    ids=[
        *("nan_to_0", "relu_nan", "flushed", "relu6", "round", "minus_0", "tanh", "sigmoid", "argmax", "amax"),
        *("amax_of_0", "amin_of_0", "variance"),
    ],
)
def test_special_values_find(fn, compiled, groups):
    def function(x):
        return fn(x)

    text = f"special values {groups}" if groups.startswith("(") else groups or "elements are wrong"
    fails_with(case_of(function, x=tensor(8, 50)), compiled, text)


def _halves(x, y):
    return x[:, ::2] @ y[:, ::2].mT + x[:, 1::2] @ y[:, 1::2].mT


def test_integers_that_do_not_wrap():
    def increment(x):
        return x + 1

    a_case = case_of(increment, x=tensor(9, dtype="i16"))
    wrong = lambda x: torch.where(x == -32768, x, x + 1)  # noqa: E731
    fails_with(a_case, wrong, "special values (wrap)", "inputs there  x = -32768")


@pytest.mark.parametrize(("fn", "group"), [(torch.amax, "negative"), (torch.amin, "positive")])
def test_an_extreme_of_integers_that_starts_at_0(fn, group):
    def function(x):
        return fn(x, -1)

    wrong = lambda x: (torch.clamp_min if group == "negative" else torch.clamp_max)(fn(x, -1), 0)  # noqa: E731
    fails_with(case_of(function, x=tensor(9, 40, dtype="i64")), wrong, f"special values ({group})")


def test_special_values_keep_to_the_range_of_an_input():
    def rows(table, index):
        return table[index]

    a_case = case_of(rows, table=tensor(10, 3), index=tensor(20, dtype="i64", low=0, high=10))
    check_numerics(a_case, a_case.fn, "cpu")


def test_branch_values_that_the_case_names():
    def threshold(x):
        return torch.where(x > 3.25, x, 0.0)

    wrong = lambda x: torch.where(x >= 3.25, x, 0.0)  # noqa: E731
    check_numerics(case_of(threshold, x=tensor(50)), wrong, "cpu")
    fails_with(case_of(threshold, x=tensor(50), numerics={"branch": [3.25]}), wrong, "special values (edges, ties)")


def test_a_group_is_left_out_for_a_reason():
    wrong = lambda x: torch.exp(x).nan_to_num(0, float("inf"))  # noqa: E731
    fails_with(case_of(exp, x=tensor(50)), wrong, "special values (nan)")
    check_numerics(case_of(exp, x=tensor(50), numerics={"without": {"nan": "planted"}}), wrong, "cpu")
    check_numerics(case_of(exp, x=tensor(50), numerics={"for": {"cpu": {"without": {"x": "planted"}}}}), wrong, "cpu")
    fails_with(case_of(exp, x=tensor(50), numerics={"for": {"cuda": {"without": {"x": "planted"}}}}), wrong, "(nan)")


@pytest.mark.parametrize(
    ("fn", "other"),
    [
        (lambda x, y: (x * y).sum(-1), lambda x, y: (x * y).flip(-1).sum(-1)),
        (lambda x, y: x @ y.mT, lambda x, y: _halves(x.float(), y.float()).to(x.dtype)),
        (
            lambda x, y: torch.softmax(x, -1) + y,
            lambda x, y: (x - x.amax(-1, True)).exp().div((x - x.amax(-1, True)).exp().sum(-1, True)) + y,
        ),
        (
            lambda x, y: x.var(-1) + 0 * y[:, 0],
            lambda x, y: 0 * y[:, 0] + (x - x.mean(-1, True)).square().sum(-1) / (x.shape[-1] - 1),
        ),
        (lambda x, y: x * y + x, lambda x, y: torch.addcmul(x, x, y)),
    ],
    ids=["dot", "product", "softmax", "variance", "multiply_add"],
)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_what_is_computed_in_another_order_is_right(fn, other, dtype):
    def function(x, y):
        return fn(x, y)

    inputs = {"x": tensor(16, 64, dtype=dtype), "y": tensor(16, 64, dtype=dtype)}
    order = {"without": {"full_range": "whether a product or a sum overflows depends on its order"}}
    check_numerics(case_of(function, **inputs, numerics=order), other, "cpu")


# Calls ---------------------------------------------------------------------------------------------------------------


def test_an_exception_that_compiled_swallows():
    def checked(x):
        if bool(x.isnan().any()):
            raise ValueError("NaN")
        return x + 1

    fails_with(
        case_of(checked, x=tensor(20)),
        lambda x: x + 1,
        "special values (nan)",
        "eager raises ValueError: NaN, and compiled",
    )
    check_numerics(case_of(checked, x=tensor(20)), checked, "cpu")


def test_an_exception_of_compiled_alone():
    def compiled(x):
        if bool(x.isnan().any()):
            raise ValueError("NaN")
        return torch.exp(x)

    fails_with(
        case_of(exp, x=tensor(20)), compiled, "[nan] compiled raised ValueError: NaN", "eager         raised nothing"
    )


def test_other_sizes_under_dynamic_shapes():
    def product(x, y):
        return x @ y

    a_case = case_of(product, x=tensor(20, 30), y=tensor(30, 1), dynamic=True)
    seen = []
    check_numerics(a_case, lambda x, y: seen.append((*x.shape, *y.shape)) or x @ y, "cpu")
    assert {(20, 30, 30, 1), (21, 31, 31, 1), (39, 59, 59, 1)} <= set(seen)
    fails_with(a_case, lambda x, y: x[:, :30] @ y[:30], "other sizes (sizes + 1, sizes × 2 - 1): compiled disagrees")


def test_compiling_again_is_counted():
    def double(x):
        return x * 2

    torch._dynamo.reset()
    static = torch.compile(double, backend="eager", dynamic=False)
    a_case = case_of(double, x=tensor(20), dynamic=True)
    fails_with(a_case, static, "other sizes (sizes + 1, sizes × 2 - 1)", "1 frame was compiled again")
    allowed = case_of(double, x=tensor(20), dynamic=True, numerics={"recompiles": 1, "reason": "planted"})
    torch._dynamo.reset()
    check_numerics(allowed, torch.compile(double, backend="eager", dynamic=False), "cpu")
    torch._dynamo.reset()
    check_numerics(a_case, torch.compile(double, backend="eager", dynamic=True), "cpu")


def test_modes_surround_the_call():
    def product(x, y):
        return x @ y

    inputs = {"x": tensor(20, 30), "y": tensor(30, 10), "grad": True}
    narrow = case_of(product, **inputs, mode="autocast")
    check_numerics(narrow, product, "cpu")
    wide = lambda x, y: (x.double() @ y.double()).float()  # noqa: E731 - autocast leaves float64 alone
    fails_with(narrow, wide, "dtype is float32, eager's is bfloat16")
    check_numerics(case_of(product, **inputs, mode="no_grad"), product, "cpu")

    def with_grad(x, y):
        with torch.enable_grad():
            return x @ y

    fails_with(case_of(product, **inputs, mode="no_grad"), with_grad, "requires_grad is True, eager's is False")


@pytest.mark.parametrize(
    ("numerics", "text"),
    [
        ({"without": {"nan": ""}}, "it must be the reason"),
        (
            {"without": {"everything": "why"}},
            "sizes, expanded cotangents, permuted cotangents, transposed, dynamic, size 0, size 1, refused, graphs, x",
        ),
        ({"branch": "zero"}, "a list of numbers"),
        ({"branch": {"y": [1]}}, "the inputs are x"),
        ({"recompiles": 1}, "= 1 needs a 'reason'"),
        ({"for": {"cpu": {"tolerance": 1}}}, "numerics['for']['cpu']: numerics has the unknown key 'tolerance'"),
        ({"for": {"cpu": 1}}, "is 1; it must be a dict of numerics"),
    ],
)
def test_malformed_declarations(numerics, text):
    with pytest.raises(CaseError) as caught:
        validate([case_of(exp, x=tensor(3), numerics=numerics)])
    assert text in str(caught.value)


def test_shapes_of_edges():
    assert edges()[:3] == [(0,), (1,), (7,)]
    assert edges(64, None, sizes=(0, 17)) == [(64, 0), (64, 17)]
