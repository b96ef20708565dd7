"""The call with what a call left in a module: a flag, a counter, which of two objects is next."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from conformance import case, module, tensor
from conformance.capture.dynamo_graphs import NotWritableError
from conformance.cases.kept_state import after_a_call
from conformance.harness.reproduction.module_text import NotSelfContainedError
from conformance.harness.reproduction.script import failed_problems
from conformance.minimisation.captured_programs import programs_of_case
from conformance.numerics.check import NumericsError, check_numerics


class Switch(nn.Module):
    """Adds and subtracts by turns."""

    def __init__(self):
        super().__init__()
        self.up, self.down = object(), object()
        self.state = self.up

    def forward(self, x):
        if self.state is self.up:
            self.state = self.down
            return x + 1
        self.state = self.up
        return x - 1


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.count, self.sizes = nn.Linear(7, 7), 0, []

    def forward(self, x):
        self.count += 1
        return self.linear(x) * self.count


class Log(Counter):
    def forward(self, x):
        self.sizes.append(x.shape)
        return self.linear(x)


class Last(Counter):
    """Keeps a tensor with its graph, which cannot be copied."""

    def forward(self, x):
        self.last = self.linear(x)
        return self.last.relu()


class OnlyOnce(Switch):
    def forward(self, x):
        assert self.state is self.up
        return super().forward(x)


def called(x, net):
    return net(x)


called.__name__ = "test_called"


def case_of(made, **declared):
    (only,) = case(x=tensor(5, 7), net=module(made), **declared)(called).cases
    return only


@pytest.mark.parametrize(
    ("made", "grad", "changes"),
    [
        (Switch, False, True),
        (Counter, True, True),
        (Log, False, True),
        (Last, False, True),
        (Last, True, False),
        (lambda: nn.Linear(7, 7), True, False),
        (lambda: nn.BatchNorm1d(7), False, False),  # its counter is a buffer
    ],
)
def test_state_that_counts(made, grad, changes):
    assert (after_a_call(case_of(made, grad=grad)) is not None) == changes


def test_no_module_has_no_state():
    (only,) = case(x=tensor(5, 7), net=1.0)(called).cases
    assert after_a_call(only) is None


@pytest.mark.parametrize("made", [Switch, Counter, Log, Last])
def test_what_does_as_eager_passes(made):
    check_numerics(case_of(made), called, "cpu")


def test_state_that_eager_refuses_is_skipped():
    comparison = check_numerics(case_of(OnlyOnce), called, "cpu")
    assert any("next call" in note and "eager raises" in note for note in comparison.notes)


def forgets_the_state(x, net):
    net.state = net.down
    return x + 1


def test_code_for_the_first_state_alone_is_found():
    with pytest.raises(NumericsError, match=r"what a call left in the module \(next\): compiled disagrees") as raised:
        check_numerics(case_of(Switch), forgets_the_state, "cpu")
    assert {(each.call, each.rule) for each in raised.value.problems} == {("next", "values")}
    with pytest.raises(NotSelfContainedError, match="only the suite calls again"):
        failed_problems(raised.value)


def test_dynamo_may_compile_for_another_state():
    check_numerics(case_of(Counter), torch.compile(called, backend="eager"), "cpu")


def test_minimising_says_why_it_cannot():
    with pytest.raises(NotWritableError, match="before the state of the module changed"):
        programs_of_case(case_of(Switch), "cpu_avx2", "cpu", "next")
