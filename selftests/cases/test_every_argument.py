"""Each argument of the operators that ops/ calls has a case with a value that changes the result, or a reason."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest
from argument_values import ArgumentValues

from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REASONS = tomllib.loads((Path(__file__).parents[1] / "unset_arguments.toml").read_text(encoding="utf-8"))["unset"]


CASES = """
import torch
from conformance import case, tensor

@case(x=tensor(4, 5), index=tensor(4, 5, dtype="i64", low=0, high=4), include_self=[True, False])
def test_reduced(x, index, include_self):
    return x.scatter_reduce(0, index, x, "sum", include_self=include_self)

@case(x=tensor(4, 5))
def test_unchanged(x):
    return torch.nn.functional.leaky_relu(x.abs(), 0.5), torch.nn.functional.elu(x, 2.0)
"""


@pytest.fixture
def cases(tmp_path):
    file = tmp_path / "test_few.py"
    file.write_text(CASES)
    return {each.id: each for each in cases_below([file])}


def unset(cases):
    return ArgumentValues().read(cases).unset()


def test_an_argument_counts_from_the_first_case_that_sets_it(cases):
    default, other = (each for id_, each in cases.items() if "reduced" in id_)
    assert unset([default]) == {"aten.scatter_reduce": ["include_self"]}
    assert unset([default, other]) == {}


def test_a_value_that_changes_nothing_does_not_count(cases):
    found = unset([cases["few/unchanged"]])
    assert found["torch.nn.functional.leaky_relu"] == ["inplace", "negative_slope"]
    assert found["torch.nn.functional.elu"] == ["inplace"]


def test_cases_of_one_file_set_what_they_are_for():
    found = unset(cases_below([OPS / "test_scatter.py"]))
    assert "include_self" not in found.get("aten.scatter_reduce", [])


def test_each_reason_is_said_once():
    named = [
        (operator, argument)
        for entry in REASONS
        for operator, arguments in entry.get("of", {}).items()
        for argument in arguments
    ]
    everywhere = {argument for entry in REASONS for argument in entry.get("everywhere", [])}
    assert len(named) == len(set(named))
    assert [each for each in named if each[1] in everywhere] == []
    assert all(entry["reason"] for entry in REASONS)


@pytest.mark.long("it builds the inputs of all cases")
def test_each_argument_has_a_case_or_a_reason():
    found = unset(cases_below([OPS]))
    everywhere = {argument for entry in REASONS for argument in entry.get("everywhere", [])}
    explained = defaultdict(set)
    for entry in REASONS:
        for operator, arguments in entry.get("of", {}).items():
            explained[operator] |= set(arguments)
    left = {operator: set(arguments) - everywhere for operator, arguments in found.items()}
    left = {operator: arguments for operator, arguments in left.items() if arguments}
    assert left == dict(explained)
    assert everywhere <= {argument for arguments in found.values() for argument in arguments}
