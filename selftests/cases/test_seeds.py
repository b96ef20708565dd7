"""What is drawn at random depends on what it is and on the seed of the run, and not on the name of a case."""

import pytest
import torch
from checking import case_of

from conformance import tensor
from conformance.cases import run_values, special_values
from conformance.cases.run_values import RunValues
from conformance.numerics.messages import reproduction
from conformance.settings import SettingsError, parse_seed


def one(x, y):
    return x + y


def other(x, y):
    return x * y


def inputs():
    return {"x": tensor(5, 7), "y": tensor(5, 7)}


def drawn(a_case):
    special = {call.group: call.arguments for call in special_values.calls(a_case, {}, ())}
    return [a_case.build(0), a_case.build(1), *special.values()]


def equal(some, others):
    pairs = zip(some, others, strict=True)
    return [torch.equal(a[name], b[name]) or bool(a[name].isnan().any()) for a, b in pairs for name in a]


def test_two_cases_with_equal_inputs_have_equal_values():
    assert all(equal(drawn(case_of(one, **inputs())), drawn(case_of(other, **inputs()))))


def test_inputs_of_one_case_differ():
    for arguments in drawn(case_of(one, **inputs())):
        assert not torch.equal(arguments["x"], arguments["y"])


@pytest.mark.parametrize("declared", [{"dtype": "f64"}, {"layout": "transposed"}])
def test_other_properties_have_other_values(declared):
    plain, changed = case_of(one, **inputs()).build(), case_of(one, **inputs(), **declared).build()
    assert not torch.allclose(plain["x"].double(), changed["x"].double())


def test_another_seed_of_the_run_draws_anew(monkeypatch):
    a_case = case_of(one, **inputs())
    before = a_case.build()
    monkeypatch.setattr(run_values, "_used", [RunValues(seed=3)])
    assert not torch.equal(a_case.build()["x"], before["x"])
    assert "--seed 3" in reproduction(a_case, "cpu_avx2")
    monkeypatch.undo()
    assert torch.equal(a_case.build()["x"], before["x"])
    assert "--seed" not in reproduction(a_case, "cpu_avx2")


@pytest.mark.parametrize("text", ["-1", "1.5", "", "one", "²"])
def test_what_is_no_seed_is_refused(text):
    with pytest.raises(SettingsError, match=r"--seed .*: give a whole number of 0 or more"):
        parse_seed(text)
