"""A capture inside another capture's context, as `same_code_as` makes natively: both are as if made alone."""

from __future__ import annotations

import pytest

from conformance import case, tensor
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets
from conformance.facts import extract
from conformance.facts.explain import explanation


@case(x=tensor(64, 100))
def test_rows(x):
    return x.softmax(-1)


@case(x=tensor(64, 100))
def test_columns(x):
    return x.sum(0)


#: pytest must not run the two functions as tests.
ROWS, COLUMNS = test_rows.cases[0], test_columns.cases[0]
del test_rows, test_columns


def outputs(captured) -> tuple[object, ...]:
    # without the first line, which counts the graphs of the process
    codes = [module.code.partition("\n")[2] for module in captured.modules]
    return extract(captured).lines(), explanation(captured), codes, captured.joint_graph


@pytest.mark.parametrize("name", ["cpu_avx512", "cuda_sm90"])
def test_both_as_alone(name):
    target = targets()[name]
    alone = []
    for each in (ROWS, COLUMNS):
        with capture(CaseRequest(each, target)) as captured:
            alone.append(outputs(captured.capture))
    with capture(CaseRequest(ROWS, target)) as outer:
        with capture(CaseRequest(COLUMNS, target)) as inner:
            assert outputs(inner.capture) == alone[1]
        assert outputs(outer.capture) == alone[0]
