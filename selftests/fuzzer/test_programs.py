"""Programs that the fuzzer makes: idioms run, values fit, the same seed gives the same programs."""

from __future__ import annotations

import inspect
import random

import pytest
import torch

from conformance.cases.lookup import matching_cases, package_cases
from conformance.fuzzer.fitting import Fit, fit_for
from conformance.fuzzer.generator import Generator, renamed, tensors_in
from conformance.fuzzer.idioms import IDIOMS
from conformance.fuzzer.parts import LARGEST, Parts, unsuitable
from conformance.minimisation.program import EagerRun, Program, Step

#: Cases that Dynamo captures in a moment.
PATTERNS = ["binary/*", "reduction/*", "softmax/*", "shape/*", "scatter/*"]


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(matching_cases(package_cases().cases, PATTERNS), lambda _case: "")


@pytest.mark.parametrize("shape", [(6,), (4, 9), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("name", IDIOMS)
def test_idiom(name, shape):
    wanted = inspect.signature(IDIOMS[name]).parameters
    assert set(wanted) <= {"x", "y", "dim"}
    for dim in range(len(shape)):
        given = {"x": torch.randn(shape), "y": torch.randn(shape), "dim": dim}
        results = tensors_in(IDIOMS[name](**{key: value for key, value in given.items() if key in wanted}))
        assert results
        assert all(each.numel() for each in results)
        assert all(each.isfinite().all() for each in results)


@pytest.mark.parametrize("way", ["first", "last", "repeated", "indexed", "mean"])
@pytest.mark.parametrize("wanted", [(), (3,), (2, 3), (6, 7), (2, 2, 50)], ids=str)
@pytest.mark.parametrize("shape", [(3,), (4, 9), (2, 3, 5)], ids=str)
def test_value_fits(shape, wanted, way):
    fitted = Fit(wanted, torch.float16, (0.25, 0.5), way)(torch.randn(shape))
    assert fitted.shape == wanted
    assert fitted.dtype == torch.float16
    assert ((fitted >= 0.25) & (fitted <= 0.5)).all()


def test_a_place_for_probabilities_takes_no_other_numbers():
    assert fit_for(torch.rand(50), random.Random(0)).bounds is not None
    fits = [fit_for(torch.randn(50), random.Random(seed)) for seed in range(20)]
    assert any(fit.bounds is None for fit in fits)


@pytest.mark.long("it draws 36 programs and runs each step of them in eager mode")
def test_the_same_seed_gives_the_same_programs(parts):
    def texts(seed):
        programs = [Generator(parts, seed).program(number) for number in range(12)]
        return [each and (each.program.text, each.form, each.parts) for each in programs]

    first = texts(3)
    assert first == texts(3)
    assert first != texts(4)
    assert sum(each is not None for each in first) >= 6


def test_programs_run_and_join_several_parts(parts):
    generator = Generator(parts, 5)
    programs = [each for number in range(15) if (each := generator.program(number)) is not None]
    for each in programs:
        run = EagerRun(each.program)
        assert (run.raised is None) == (not each.form.raises)
        assert run.raised or all(name in run.values for name in each.program.outputs)
        assert len(each.parts) > 1
        assert all(value.numel() <= LARGEST for value in each.program.inputs.values())
    assert any(set(each.parts) & set(IDIOMS) for each in programs)
    assert any(value.requires_grad for each in programs for value in each.program.inputs.values())


def test_what_a_case_declares_leaves_it_out():
    cases = {case.id: case for case in package_cases().cases}
    assert unsuitable(cases["softmax/sizes-3x1025"]) == ""
    assert unsuitable(next(case for case in cases.values() if case.mode != "plain"))
    assert unsuitable(next(case for case in cases.values() if "raises" in case.numerics))


def test_names_do_not_tell_programs_apart():
    one = Program({"a": torch.ones(2)}, (Step("b", "a.sin()"), Step("c", "torch.add(b, a, alpha=2)")), ("c",))
    other = Program({"x": torch.ones(2)}, (Step("a", "x.sin()"), Step("b", "torch.add(a, x, alpha=2)")), ("b",))
    assert renamed(one).text == renamed(other).text
    assert "v1 = torch.add(v0, x0, alpha=2)" in renamed(one).text
