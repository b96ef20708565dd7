"""Inputs in lists, tuples, dicts and dataclasses are refused with one sentence that says what to do instead."""

import dataclasses
from typing import Any, NamedTuple

import pytest

from conformance import case, tensor
from conformance.cases.case import CaseError


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Box:
    x: Any


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([tensor(3), tensor(3)], "list"),
        ((tensor(3), 2), "tuple"),
        ({"x": tensor(3)}, "dict"),
        (Pair(1, tensor(3)), "Pair"),
        (Box((tensor(3),)), "Box"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_inputs_in_a_collection(value, kind):
    def test_sum(pair):
        return pair

    message = f"test_sum: 'pair' is a {kind} of inputs; write it as pair=group(…), such as pair=group([tensor(20), te"
    with pytest.raises(CaseError) as raised:
        case(pair=value)(test_sum)
    assert message in str(raised.value)


def test_collections_without_inputs_are_axes_and_constants():
    def test_sum(x, sizes, box):
        return x

    assert len(case(x=tensor(3), sizes=[(1, 2), (3, 4)], box=Box(1))(test_sum).cases) == 2
