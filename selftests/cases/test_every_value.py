"""Inputs with every value of a dtype, and the operators of conformance/ops/test_every_value.py."""

import re

import pytest
import torch
from checking import case_of
from suites import FOREIGN, NATIVE, REPOSITORY

from conformance import every_value
from conformance.cases.dtypes import dtype_of
from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.cases.selectors import exclusion
from conformance.cases.tolerance_policy import Policy
from conformance.devices.environment import torch_build
from conformance.devices.targets import targets
from conformance.numerics.check import Comparison, NumericsError, calls, check_numerics

CASES = cases_below([OPS / "test_every_value.py"])
#: The first case of each function, in the order of the file.
FIRST = {name: next(each for each in CASES if each.name == name) for name in dict.fromkeys(c.name for c in CASES)}
INTEGERS = ("i64", "i32", "i16", "i8", "u8")
DTYPES = ("f16", "bf16", "i16", "u8", "i8", "bool")

PROJECT = """
import torch
from conformance import case, every_value

@case(x=every_value("u8"), checks=("numerics", "requirements"), require={"all": {"fallbacks": []}})
def test_negative(x):
    return -x
"""


def identity(x):
    return x.clone()


def bits(tensor):
    """The bit pattern of each element, as a list of ints that are not negative."""
    width = 8 * tensor.element_size()
    return [value % (1 << width) for value in tensor.view(torch.int8 if width == 8 else torch.int16).tolist()]


# Inputs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "count"), [("f16", 65536), ("bf16", 65536), ("i16", 65536), ("u8", 256), ("i8", 256), ("bool", 2)]
)
def test_each_bit_pattern_occurs_once_and_in_another_order_for_another_seed(dtype, count):
    each = case_of(identity, x=every_value(dtype))
    first, second, third = (bits(each.build(seed)["x"]) for seed in range(3))
    assert first == list(range(count))
    assert sorted(second) == sorted(third) == first
    if count > 2:
        assert first != second != third != first


def test_a_part_of_the_values():
    def values(*dtype, **declared):
        return case_of(identity, x=every_value(*dtype, **declared)).build(0)["x"].tolist()

    assert values("i8", low=-2, high=1) == [0, 1, -2, -1]
    assert values("u8", low=254) == [254, 255]
    assert values("u8", without=(0, 7)) == [*range(1, 7), *range(8, 256)]
    assert len(values("f16", low=-65504, high=65504)) == 2 * 31744
    assert len(values("f16", low=-float("inf"))) == 2 * 31745  # all but NaN
    assert len(values("f16", without=(0,))) == 65534  # without both zeros, and with NaN


def test_a_dtype_with_too_many_values_is_refused():
    with pytest.raises(
        ValueError, match=r"x\.dtype is 'f32': .*; only dtypes of at most 16 bits have few enough values"
    ):
        case_of(identity, x=every_value("f32"))


def test_with_a_step_f32_has_a_value_of_each_exponent_and_sign():
    each = case_of(identity, x=every_value("f32", step=2**16))
    numbers = each.build(0)["x"].view(torch.int32).long() % 2**32
    assert torch.equal(numbers >> 16, torch.arange(2**16))  # one of each 65,536 neighbours, in order
    assert (numbers & 0xFFFF).unique().numel() > 2**15
    assert torch.equal((each.build(1)["x"].view(torch.int32).long() % 2**32).sort().values, numbers)
    assert len(case_of(identity, x=every_value("u8", step=4)).build(0)["x"]) == 64


@pytest.mark.parametrize(("dtype", "step"), [("f32", 2**15), ("f64", 2**16), ("f32", 3), ("u8", 0), ("u8", True)])
def test_a_wrong_step_is_refused(dtype, step):
    with pytest.raises(ValueError, match=r"only dtypes of at most 16 bits|x\.step is .*: it must be a power of two"):
        case_of(identity, x=every_value(dtype, step=step))


def test_there_are_no_calls_with_special_values():
    each = case_of(identity, x=every_value("f16"))
    assert [(call.kind, call.name) for call in calls(each, Policy(), Comparison())] == [
        ("ordinary", "first"),
        ("ordinary", "second"),
    ]


@pytest.mark.parametrize(("dtype", "where"), [("f16", 0x1234), ("bf16", 0x8001), ("i16", 0xFFFF), ("u8", 0)])
def test_one_wrong_value_is_found(dtype, where):
    def twice(x):
        return x + x

    def wrong(x):
        result = x + x
        result[bits(x).index(where)] = 100
        return result

    each = case_of(twice, x=every_value(dtype))
    check_numerics(each, twice, "cpu")
    with pytest.raises(NumericsError, match=r"first call: .*\n.*: 1 of \d+ elements are wrong"):
        check_numerics(each, wrong, "cpu")


# The operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_all_pairs_of_bytes_are_there(seed):
    built = FIRST["pairs"].build(seed)
    for dtype in ("u8", "i8"):
        x, y = built[f"x_{dtype}"], built[f"y_{dtype}"]
        pairs = torch.stack([part.flatten() for part in torch.broadcast_tensors(x[:, None], y)], 1)
        assert len(pairs.unique(dim=0)) == 256 * 256


def test_the_inputs_have_all_values_of_the_dtypes_of_their_names():
    for name in (
        "all",
        "numbers",
        "signed",
        "floating",
        "integers",
        "without_bf16",
        "bf16",
        "f16",
        "without_i8",
        "i8",
        "pairs",
    ):
        for argument, values in FIRST[name].build(0).items():
            if isinstance(values, torch.Tensor):
                dtype = dtype_of(argument.partition("_")[2])
                assert (values.dtype, values.numel()) == (dtype, 2 if dtype == torch.bool else 256**dtype.itemsize)


def accepts(operator, dtype):
    try:
        operator(every_value(dtype).build({"dtype": dtype}, 0, 0))
    except (RuntimeError, NotImplementedError):
        return False
    return True


def test_eager_refuses_the_dtypes_that_a_table_leaves_out():
    """Casts of floating dtypes to integers are a function of their own, because not all their values can be cast."""
    tables = ("all", "numbers", "signed", "floating", "integers", "without_bf16", "bf16", "f16", "without_i8", "i8")
    covered, operators = {}, {}
    for each in CASES:
        if each.name in tables:
            (label,) = each.labels
            operators[label] = each.arguments["function"]
            covered.setdefault(label, set()).update(name.removeprefix("x_") for name in each.arguments)
    left_out = {
        f"{label} takes {dtype}"
        for label, operator in operators.items()
        for dtype in DTYPES
        if dtype not in covered[label] and accepts(operator, dtype)
    }
    assert left_out == {f"to_{integer} takes {dtype}" for integer in INTEGERS for dtype in ("f16", "bf16")}


def test_nothing_is_stored():
    assert not any(each.has_stored_code for each in CASES)
    assert not list(OPS.parent.glob("expected_*/every_value*"))


def test_gpus_are_excluded_with_the_reason():
    is_compared = torch_build().release >= (2, 13)  # `only` leaves out older versions on each target
    for each in CASES:
        reason = "g++ 12" if each.name == "i8" else "emulating a GPU would take minutes"
        assert reason in exclusion(each, targets()["cuda_sm90"])
        assert bool(exclusion(each, targets()["cpu_avx512"])) != is_compared
        assert bool(exclusion(each, targets()["cpu_avx2"])) == (each.name == "i8" or not is_compared)


def results_of_one_call():
    """How many elements one call of all items gives."""
    total = 0
    for name, first in FIRST.items():
        results = first.fn(**first.build())
        results = results if isinstance(results, tuple) else (results,)
        total += sum(each.name == name for each in CASES) * sum(each.numel() for each in results)
    return total


def test_the_page_has_these_counts():
    page = " ".join((REPOSITORY / "docs" / "numerics.md").read_text(encoding="utf-8").split())
    assert f"It has {len(CASES)} items; one call of all of them gives {results_of_one_call():,} results." in page


# Cases with some checks -----------------------------------------------------------------------------------------------


@pytest.mark.long("it computes a case of all 16-bit values natively, which has to be compiled")
@pytest.mark.skipif(not NATIVE, reason="this machine runs no cpu target")
def test_a_case_without_code_stores_nothing_and_is_excluded_where_numerics_do_not_run(suite):
    suite.write("ops/test_scale.py", PROJECT)
    ran = suite.accept("-rs", "-k", f"{NATIVE} or {FOREIGN}", "--strict-run").ends(0)
    ran.has("2 items = 1 passed + 1 excluded", "1 native")
    ran.has(f"stores no code and compares only numerics, and this machine has no {FOREIGN}")
    assert suite.stored() == {}
    suite.run("-rs", "-k", NATIVE, "--checks", "code").has(
        "scale/negative has only the checks numerics and requirements: this run selects none of them"
    )
    no_compiler = suite.run("-k", NATIVE, "--strict-run", env={"PATH": "/nowhere", "CXX": None}).ends(1)
    no_compiler.has("1 item = 1 cannot run", "no C++ compiler was found")


def test_unknown_checks_are_refused():
    for checks in (("numeric",), "numerics"):
        with pytest.raises(ValueError, match=re.escape("it must be a tuple of numerics, requirements, code")):
            case_of(identity, x=every_value("u8"), checks=checks)
