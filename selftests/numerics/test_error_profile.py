"""Error profiles: they agree with the errors of single elements, stay small, and take nothing from the check."""

import math

import pytest
import torch

from conformance import case, tensor
from conformance.cases.tolerance_policy import Policy
from conformance.numerics.check import NumericsError, Observed, check_numerics
from conformance.numerics.error_profile import MOST_BUCKETS, ErrorProfiles, Errors
from conformance.numerics.measurement import measure


def _rounded(seed: int, scale: float, count: int = 2000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compiled's, eager's and float64's values. `scale`: the error of compiled in ulp; eager's is 1 ulp."""
    generator = torch.Generator().manual_seed(seed)
    reference = torch.randn(count, generator=generator, dtype=torch.float64)
    noise = torch.rand(2, count, generator=generator, dtype=torch.float64) * 2 - 1
    got, eager = ((reference * (1 + each * 2**-23)).float() for each in (noise[0] * scale, noise[1]))
    return got, eager, reference


@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])  # within the floor, within eager's error, wrong
def test_errors_of_buckets_are_those_of_their_elements(scale: float) -> None:
    got, eager, reference = _rounded(0, scale)
    measurement = measure(got, eager, reference, Policy(), profiled=True)
    exponents = torch.frexp(reference.abs()).exponent - 1
    ulp = torch.pow(2.0, exponents.double() - 23)
    wrong = set()
    assert measurement.buckets is not None
    assert set(measurement.buckets) == set(exponents.tolist())
    for exponent, errors in measurement.buckets.items():
        here = exponents == exponent
        own, eagers = (((side - reference).abs() / ulp)[here] for side in (got, eager))
        assert errors.eager == pytest.approx(float(eagers.amax()))
        assert (own - errors.compiled).abs().amin() < 1e-9, "no element has that error"
        if scale < 4:
            assert errors.compiled == pytest.approx(float(own.amax()), rel=0.5)
        if errors.compiled > errors.allowed:
            wrong.add(exponent)
    assert wrong == set(exponents[measurement.wrong].tolist()), "a bucket is over its limit if an element is wrong"


def test_profile_changes_no_verdict() -> None:
    for scale in (0.5, 3.0, 8.0, 40.0):
        sides = _rounded(1, scale)
        plain, profiled = measure(*sides, Policy()), measure(*sides, Policy(), profiled=True)
        assert plain.buckets is None
        assert torch.equal(plain.wrong, profiled.wrong)
        assert (plain.error, plain.allowed, plain.index) == (profiled.error, profiled.allowed, profiled.index)


def test_nan_infinity_zero_and_denormals() -> None:
    reference = torch.tensor([math.nan, math.inf, 0.0, 2.0**-140, 1.5], dtype=torch.float64)
    eager = reference.float()
    measurement = measure(eager + torch.tensor([0, 0, 0, 0, 2**-23]), eager, reference, Policy(), profiled=True)
    assert measurement.buckets is not None
    assert set(measurement.buckets) == {-126, 0}
    assert measurement.buckets[0].compiled == 1.0
    assert measurement.buckets[-126].compiled == 0.0


def test_bits_of_eager_need_no_bucket_and_integers_have_no_profile() -> None:
    _, eager, reference = _rounded(2, 1.0)
    assert measure(eager, eager.clone(), reference, Policy(), profiled=True).buckets == {}
    assert measure(eager.int(), eager.int() + 1, reference, Policy(), profiled=True).buckets is None


def test_complex_and_empty_tensors() -> None:
    got, eager, reference = (torch.complex(side, side.flip(0)) for side in _rounded(3, 2.0))
    measurement = measure(got, eager, reference, Policy(), profiled=True)
    assert measurement.buckets
    assert max(each.compiled for each in measurement.buckets.values()) < 5
    assert not measure(got[:0] * 2, eager[:0], reference[:0], Policy(), profiled=True).buckets


def test_a_record_has_few_lines_and_keeps_the_worst() -> None:
    profiles = ErrorProfiles()
    profiles.add("ordinary", "output", torch.float32, {e: Errors(1.0, 2.0, 4.0) for e in range(-100, 20)})
    profiles.add("ordinary", "output", torch.float32, {3: Errors(0.5, 9.0, 4.0), 40: Errors(0.0, 0.0, 0.0)})
    (entry,) = profiles.to_json()
    assert (entry["call"], entry["tensor"], entry["dtype"]) == ("ordinary", "output", "float32")
    rows = [line.split() for line in entry["buckets"]]
    assert len(rows) <= MOST_BUCKETS
    assert (rows[0][0], rows[-1][1]) == ("-100", "40")
    worst = [row for row in rows if int(row[0]) <= 3 <= int(row[1])]
    assert [row[2:] for row in worst] == [["1", "9", "4"]]


def test_a_check_profiles_ordinary_calls_and_others_only_where_they_are_wrong() -> None:
    @case(x=tensor(500), grad=True)
    def test_exp(x):
        return torch.exp(x)

    (only,) = test_exp.cases
    observed = Observed()
    check_numerics(only, lambda x: torch.exp(x) * (1 + 2**-23), "cpu", observed=observed)
    entries = observed.comparison.error_profiles.to_json()
    assert [(entry["call"], entry["tensor"]) for entry in entries] == [
        ("ordinary", "output"),
        ("ordinary", "gradient of x"),
    ]
    assert all(entry["buckets"] for entry in entries)
    observed = Observed()
    with pytest.raises(NumericsError):
        check_numerics(only, lambda x: torch.where(x.abs() > 30, x * 3, torch.exp(x)), "cpu", observed=observed)
    calls = {entry["call"] for entry in observed.comparison.error_profiles.to_json()}
    assert "ordinary" in calls
    assert len(calls) > 1


def test_what_eager_may_err_in_special_calls_is_what_it_erred_in_ordinary_ones() -> None:
    profiles = ErrorProfiles()
    assert not profiles.eager_error("output", torch.ones(3, dtype=torch.float64)).any()
    profiles.add("ordinary", "output", torch.float32, {-3: Errors(8.0, 0.0, 0.0), 1: Errors(1.0, 0.0, 0.0)})
    reference = torch.tensor([0.01, 0.2, -0.9, 3.0, torch.nan], dtype=torch.float64)
    known = profiles.eager_error("output", reference)
    ulp = 2.0**-23
    assert known.tolist() == [0.0, ulp, ulp, 2 * ulp, 0.0]
    assert not profiles.eager_error("output", reference.to(torch.complex128)).any()
