"""A rounding that compiled leaves out: what a compile with emulate_precision_casts says of it."""

from __future__ import annotations

import contextlib

import pytest
import torch
from checking import case_of

from conformance import tensor
from conformance.capture.result import CaptureResult
from conformance.compiler.compiler import checked_numerics, compiler_here
from conformance.compiler.precision_casts import roundings_explained
from conformance.devices.targets import targets
from conformance.numerics.check import NumericsError, Observed, check_numerics

CPU = targets()["cpu_avx2"]


def rounded(x, w):
    return (x @ w).to(torch.bfloat16) + w[0]


def never_rounded(x, w):
    return x @ w + w[0]


CASE = case_of(rounded, x=tensor(20, 30), w=tensor(30, 40))


def notes(compiled, with_casts, case=CASE):
    """What the check of a candidate says about roundings. `with_casts`: what the option compiles."""

    def captures(request):
        assert request.case.config["emulate_precision_casts"]
        return contextlib.nullcontext(CaptureResult(None, with_casts))

    observed = Observed()
    with roundings_explained(captures, case, case, CPU, "native", observed.comparison, emulates=False):
        check_numerics(case, compiled, "cpu", CPU.name, observed=observed)
    return observed.comparison.roundings


@pytest.mark.parametrize(
    ("with_casts", "said"),
    [
        (rounded, "output with emulate_precision_casts: as eager, bit for bit"),
        (never_rounded, "with emulate_precision_casts: output: eager rounds to bfloat16 on the way and compiled does"),
        (
            lambda x, w: rounded(x, w) + 9,
            "with emulate_precision_casts: disagrees with eager: output (float32): 800",
        ),
        (lambda x, w: w @ x.T @ w.T, "with emulate_precision_casts: mat1 and mat2 shapes cannot be multiplied"),
    ],
    ids=["rounds", "does not round", "wrong", "raises"],
)
def test_what_the_option_changes_is_said(with_casts, said):
    first, second = notes(never_rounded, with_casts)
    assert first.startswith("output: eager rounds to bfloat16 on the way and compiled does not: 100% ")
    assert second.startswith(said)


def test_what_does_not_compile_with_the_option_fails_nothing():
    def captures(_request):
        raise RuntimeError("no such lowering\nof many lines")

    observed = Observed()
    with roundings_explained(captures, CASE, CASE, CPU, "native", observed.comparison, emulates=False):
        check_numerics(CASE, never_rounded, "cpu", CPU.name, observed=observed)
    assert observed.comparison.roundings[1] == "with emulate_precision_casts: no such lowering"


def test_nothing_is_compiled_where_no_rounding_is_missing():
    assert notes(rounded, None) == []


def test_an_option_that_is_on_is_not_tried_again():
    assert notes(never_rounded, None, CASE.with_config({"emulate_precision_casts": True}))[1] == (
        "emulate_precision_casts is on and does not bring the rounding back"
    )


def test_a_failure_names_the_rounding_too():
    def with_an_error(x, w):
        result = never_rounded(x, w)
        result[0, 0] += 0.2
        return result

    with pytest.raises(NumericsError) as raised:
        notes(with_an_error, rounded)
    assert raised.value.problems
    *_, first, second = str(raised.value).splitlines()
    assert first.startswith("output: eager rounds to bfloat16 on the way")
    assert second == "output with emulate_precision_casts: as eager, bit for bit"


def quantised(x):
    return (x / 0.11).round().to(torch.int8)


def test_integers_are_explained_by_a_compile():
    pytest.importorskip("triton", reason="without Triton nothing is emulated")
    case = case_of(quantised, x=tensor(20, 24, dtype="bf16", low=-12, high=12))
    with contextlib.closing(compiler_here()) as compiler:
        target = compiler.target("cuda_sm90")
        with compiler.generate(case, target, run=True) as result:
            lines = checked_numerics(compiler, case, result, target, native=False)
    _, first, second = lines
    assert "integers differ by one, because eager rounds a number before it" in first
    assert second == "output with emulate_precision_casts: as eager, bit for bit"
