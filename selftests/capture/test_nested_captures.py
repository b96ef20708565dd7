"""A capture made while another one's context lasts, as `same_code_as` does natively: both see what they see alone."""

from __future__ import annotations

import pytest

from conformance import case, tensor
from conformance.capture.compile import capture
from conformance.devices.targets import targets
from conformance.facts import extract
from conformance.facts.explain import explanation


@case(x=tensor(64, 100))
def test_rows(x):
    return x.softmax(-1)


@case(x=tensor(64, 100))
def test_columns(x):
    return x.sum(0)


#: No tests of their own: pytest would run them.
ROWS, COLUMNS = test_rows.cases[0], test_columns.cases[0]
del test_rows, test_columns


def seen(made) -> tuple[object, ...]:
    codes = [module.code.partition("\n")[2] for module in made.modules]  # the first line counts the graphs of a process
    return extract(made).lines(), explanation(made), codes, made.joint_graph


@pytest.mark.parametrize("name", ["cpu_avx512", "cuda_sm90"])
def test_both_as_alone(name):
    target = targets()[name]
    alone = []
    for each in (ROWS, COLUMNS):
        with capture(each, target, "deviceless") as captured:
            alone.append(seen(captured.capture))
    with capture(ROWS, target, "deviceless") as outer:
        with capture(COLUMNS, target, "deviceless") as inner:
            assert seen(inner.capture) == alone[1]
        assert seen(outer.capture) == alone[0]
