"""group(): what the function gets, how members are named, their axes, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import pytest
import torch

from conformance import case, group, module, tensor
from conformance.cases.case import CaseError


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Box:
    x: Any
    n: int = 3


@dataclasses.dataclass
class Checked:
    """Its constructor needs a tensor."""

    x: Any

    def __post_init__(self):
        self.rows = self.x.shape[0]


def takes_pair(pair):
    return pair


takes_pair.__name__ = "test_pair"


def cases_of(value, **declared):
    return case(pair=value, **declared)(takes_pair).cases


def built(value, **declared):
    (only,) = cases_of(value, **declared)
    return only.build()["pair"]


def test_a_list():
    pair = built(group([tensor(3), (tensor(4), 5)]))
    assert type(pair) is list
    assert pair[0].shape == (3,)
    assert type(pair[1]) is tuple
    assert pair[1][0].shape == (4,)
    assert pair[1][1] == 5


def test_a_dict_a_named_tuple_and_a_dataclass():
    pair = built(group({"p": Pair(tensor(3), 2), 7: Box(tensor(4))}))
    assert isinstance(pair["p"], Pair)
    assert pair["p"].x.shape == (3,)
    assert pair["p"].y == 2
    assert isinstance(pair[7], Box)
    assert pair[7].x.shape == (4,)
    assert pair[7].n == 3


def test_a_constructor_gets_tensors():
    assert built(group(Checked, x=tensor(5, 2))).rows == 5
    assert built(group(Pair, y=tensor(3), x=1)).x == 1


def test_each_build_makes_a_new_container():
    (only,) = cases_of(group([tensor(3), {"n": [1]}]))
    first = only.build()["pair"]
    first[1]["n"].append(2)
    first.append(3)
    assert only.build()["pair"][1:] == [{"n": [1]}]


def test_members_have_values_of_their_own():
    first, second = built(group([tensor(50), tensor(50)]))
    assert not torch.equal(first, second)
    after = case(pair=group([tensor(50), tensor(50)]), x=tensor(50))(lambda_with("pair", "x")).cases[0].build()
    assert len({float(each[0]) for each in (*after["pair"], after["x"])}) == 3


def lambda_with(*names: str):
    space: dict[str, Any] = {}
    exec(f"def test_f({', '.join(names)}): return {names[0]}", space)  # noqa: S102
    space["test_f"].__code__ = space["test_f"].__code__.replace(co_filename=__file__)
    return space["test_f"]


def test_an_argument_before_a_group_keeps_its_values():
    alone = case(x=tensor(50))(lambda_with("x")).cases[0].build()["x"]
    beside = case(x=tensor(50), pair=group([tensor(3)]))(lambda_with("x", "pair")).cases[0].build()["x"]
    assert torch.equal(alone, beside)


def test_axes_of_members_of_groups_and_of_the_case():
    found = cases_of(
        group({"q": tensor(3), "k": tensor(3, dtype="i64"), "v": tensor(3, layout=["contiguous", "strided"])},
              dtype=["f32", "bf16"])
    )  # fmt: skip
    assert [each.id.partition("pair-")[2] for each in found] == [
        "f32-contiguous", "f32-strided", "bf16-contiguous", "bf16-strided",
    ]  # fmt: skip
    assert found[0].axes == ("pair.dtype", "pair['v'].layout")
    pair = found[2].build()["pair"]
    assert [pair[name].dtype for name in "qkv"] == [torch.bfloat16, torch.int64, torch.bfloat16]
    assert [each.labels for each in cases_of(group([tensor(3)]), dtype=["f32", "f16"])] == [("f32",), ("f16",)]


def test_the_inner_group_decides():
    (only,) = cases_of(group([group([tensor(3)], dtype="f16"), tensor(3)], dtype="bf16"), dtype="f64")
    assert [only.choices[path]["dtype"] for path in ("pair[0][0]", "pair[1]")] == ["f16", "bf16"]


def test_also_names_the_axis_of_a_member():
    found = cases_of(
        group([tensor(3, dtype=["f32", "f16"]), tensor(shape=[(3,), (5,)])]),
        vary="one_at_a_time",
        also=[{"pair[0].dtype": "f16", "pair[1].shape": (5,)}],
    )
    assert found[-1].labels == ("f16", "5")


@pytest.mark.parametrize(
    ("grad", "paths"),
    [
        (True, ("pair.x", "pair.y[0]")),
        ("pair", ("pair.x", "pair.y[0]")),
        ("pair.y", ("pair.y[0]",)),
        ("pair.x", ("pair.x",)),
    ],
)
def test_grad(grad, paths):
    (only,) = cases_of(group(Pair(tensor(3), [tensor(3), tensor(3, dtype="i64")])), grad=grad)
    assert only.grad == paths
    pair = only.build()["pair"]
    assert pair.x.requires_grad == ("pair.x" in paths)
    assert pair.y[0].requires_grad == ("pair.y[0]" in paths)


def test_grad_names_no_member():
    with pytest.raises(CaseError, match=r"grad names 'pair.z', which is no input; the inputs are pair.x, pair.y"):
        cases_of(group(Pair(tensor(3), tensor(3))), grad="pair.z")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: group([1, 2]), "group() gets a list without inputs; it takes a list, tuple, dict"),
        (lambda: group(tensor(3)), "group() gets an input; it takes a list"),
        (lambda: group(tensor(3), tensor(3)), "group() gets 2 values, and takes one: write group([…])"),
        (lambda: group(x=tensor(3)), "write a dict as group({'x': tensor(20)}), and a call as group(Batch, x=tensor"),
        (lambda: group([tensor(3)], layuot="strided"), "group() has no property 'layuot'"),
        (lambda: group(Box, y=tensor(3)), "group() cannot call Box: "),
    ],
)
def test_refused(make, message):
    with pytest.raises(CaseError) as raised:
        make()
    assert message in str(raised.value)


def test_a_module_that_exists_is_refused():
    with pytest.raises(CaseError) as raised:
        cases_of(group([tensor(3), torch.nn.Linear(3, 3)]))
    assert "test_pair: pair[1] is a Linear that exists already" in str(raised.value)
    with pytest.raises(CaseError, match=r"let the case build it: pair=module\(Linear, …\)"):
        cases_of(torch.nn.Linear(3, 3))
    with pytest.raises(CaseError, match=r"let the case build it: pair=module\(Linear, …\)"):
        cases_of({"one": torch.nn.Linear(3, 3)})


def test_a_module_in_a_group():
    net, x = built(group([module(torch.nn.Linear, 3, 2), tensor(3)]))
    assert net(x).shape == (2,)
