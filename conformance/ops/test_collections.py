"""collections: inputs and outputs in lists, dicts, named tuples and dataclasses, and what a call changes in them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from conformance import case, group, module, references, tensor

ONE_GRAPH = {"graph_breaks": 0}


class Qkv(NamedTuple):
    q: Any
    k: Any
    v: Any


@dataclass
class Batch:
    x: Any
    y: Any
    weight: float = 1.0


@dataclass(frozen=True)
class Loss:
    total: Any
    parts: Any


@case(
    xs=group([tensor(7, 33), tensor(5, 33), tensor(1, 33)], dtype=["f32", "bf16"]),
    grad=True,
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": ONE_GRAPH | {"fallbacks": []}},
)
def test_cat_list(xs):
    return torch.cat(xs).sin()


@case(
    qkv=group(Qkv(tensor(2, 3, 13, 9), tensor(2, 3, 11, 9, layout=["contiguous", "transposed"]), tensor(2, 3, 11, 5))),
    grad="qkv.q qkv.v",
    require={"all": ONE_GRAPH},
)
def test_attention_of_named_tuple(qkv):
    scores = (qkv.q @ qkv.k.mT) / 3.0
    return {"output": scores.softmax(-1) @ qkv.v, "scores": scores, "mask": None}


# The call changes a field in place, replaces one, and changes a number.
@case(
    batch=group(Batch(x=tensor(7, 33), y=tensor(33), weight=0.5)),
    require={"all": ONE_GRAPH | {"fallbacks": []}},
)
def test_change_dataclass(batch):
    batch.x.mul_(batch.weight)
    batch.y = batch.x.sum(0) + batch.y
    batch.weight = 2.0
    return batch.y + 1


@case(
    batch=group(Batch, x=tensor(7, 33), y=tensor(7, dtype="i64", low=0, high=33)),
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_loss_of_dataclass(batch):
    losses = torch.nn.functional.cross_entropy(batch.x, batch.y, reduction="none")
    return Loss(total=losses.mean(), parts=[losses, (losses > 1).sum(), None])


# The call adds a key and removes one.
@case(
    state=group({"step": tensor(1), "mean": tensor(33), "unused": tensor(3)}),
    x=tensor(7, 33),
    require={"all": ONE_GRAPH | {"fallbacks": []}},
)
def test_change_dict(state, x):
    state["step"] += 1
    state["last"] = x[-1] * 2
    del state["unused"]
    return x - state["mean"].lerp_(x.mean(0), 0.1)


@case(
    inputs=group({"batch": Batch(tensor(7, 33), (tensor(17), 3)), "nets": [module(torch.nn.Linear, 33, 17)]}),
    grad=True,
    mode=["plain", "autocast"],
    require={"all": ONE_GRAPH},
)
def test_nested(inputs):
    batch = inputs["batch"]
    for net in inputs["nets"]:
        y = net(batch.x) * batch.y[0] + batch.y[1]
    return (y, {"batch": batch.x.cos()})


test_references = references(test_cat_list, test_loss_of_dataclass)
