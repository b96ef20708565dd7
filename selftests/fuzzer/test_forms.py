"""Forms of a program: each runs in eager and gives the same results; a form's call says how it is checked."""

from __future__ import annotations

import random

import pytest
import torch

from conformance.fuzzer import forms
from conformance.fuzzer.forms import OPTIONS, SEEDED, Form, drawn_form
from conformance.minimisation import trial_process
from conformance.minimisation.program import EagerRun, Program, Step
from conformance.numerics.problem import Problem

INPUTS = {"x0": torch.rand(4, 6), "x1": torch.rand(4, 6).requires_grad_(), "x2": torch.arange(4)}
STEPS = (Step("v0", "x0 + x1"), Step("v1", "v0[x2].sum(1)"))
PROGRAM = Program(INPUTS, STEPS, ("v1",))


def test_forms_of_one_program():
    drawn = [drawn_form(PROGRAM, random.Random(seed), {}) for seed in range(300)]
    assert any(form.options for _, form in drawn)
    assert any(form.dynamic for _, form in drawn)
    assert {form.special for _, form in drawn} == {"", "nan", "inf", "edges"}
    assert any("graph_break" in program.text for program, _ in drawn)
    assert any(program.is_called_again for program, _ in drawn)
    assert any(form.raises for _, form in drawn)
    strided = [program for program, _ in drawn if not program.inputs["x0"].is_contiguous()]
    assert strided
    for program, form in drawn:
        run = EagerRun(program)
        assert bool(form.raises) == (run.raised is not None)
        if form.raises:
            assert form.call.numerics == {"raises": type(run.raised).__name__}
            continue
        assert program.inputs["x1"].requires_grad
        if not form.special and not program.is_called_again:
            torch.testing.assert_close(run.values["v1"], EagerRun(PROGRAM).values["v1"])


def test_what_reads_memory_keeps_its_strides():
    program = Program({"x0": torch.rand(6, 4)}, (Step("v0", "x0.as_strided((2, 3), (7, 1), 1)"),), ("v0",))
    assert all(drawn_form(program, random.Random(seed), {})[0].inputs["x0"].is_contiguous() for seed in range(100))


def test_integers_of_nan_are_no_program():
    program = Program({"x0": torch.rand(6)}, (Step("v0", "x0.to(torch.int32)"),), ("v0",))
    assert {drawn_form(program, random.Random(seed), {})[1].special for seed in range(200)} == {"", "edges"}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_are_no_defaults(options):
    from torch._inductor import config

    for name, value in options.items():
        assert config.get_config_copy().get(name) != value


def test_simpler_forms():
    form = Form({"memory_planning": True}, dynamic=True)
    assert list(form.simpler()) == [Form(), Form({"memory_planning": True}), Form(dynamic=True)]
    assert not list(Form(special="nan").simpler())
    assert (Form(special="nan").call.kind, Form(special="nan").call.name) == ("special", "nan")
    assert (form.call.kind, form.call.dynamic, form.call.config) == ("ordinary", True, {"memory_planning": True})


def test_options_that_torch_lacks_are_not_drawn(monkeypatch):
    monkeypatch.setattr(forms, "OPTIONS", ({"no_such_option": 1}, {"memory_planning": True}))
    assert forms._known_options() == [{"memory_planning": True}]


def test_what_compiled_draws_by_default_has_no_values_to_compare():
    program = Program({"x0": torch.ones(8)}, (Step("v0", "torch.rand_like(x0)"),), ("v0",))
    forms = [drawn_form(program, random.Random(seed), SEEDED)[1] for seed in range(60)]
    free = [form for form in forms if not form.values]
    assert 5 < len(free) < 40
    assert all(form.draws and "fallback_random" not in form.call.config and not form.call.values for form in free)
    assert all(form.draws for form in forms if not form.raises)


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        (["values", "dtype"], ["dtype"]),
        (["constant", "values"], []),
        (["shape", "strides"], []),  # a random mask selects other elements
        (["raises"], ["raises"]),
    ],
)
def test_problems_without_values(rules, left):
    problems = [Problem("output", rule, rule) for rule in rules]
    assert [each.rule for each in trial_process._without_values(problems)] == left
