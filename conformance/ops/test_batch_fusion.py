"""batch_fusion: options with which Inductor makes one operation on stacked inputs of five equal operations.

`pre_grad_fusion_options` names passes for Dynamo's graph, `post_grad_fusion_options` passes for the graph of ATen
operators; torch/_inductor/fx_passes/group_batch_fusion.py has both. They know nothing of devices.
"""

import torch
from torch.nn import functional

from conformance import case, references, tensor

ONLY = {"cpu": "the passes are the same for each device"}
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}

#: A pass leaves a group of fewer operations as it is.
FIVE = range(5)

# Each call stands in a function of its own: a comprehension gets its variables by name up to Python 3.11, and in the
# order of their use since 3.12, and so would the graph its inputs.


def before_autograd(*names, **search):
    """The passes of these names. `search`: their options, of which operations to take together."""
    return {"pre_grad_fusion_options": {f"batch_{name}": search for name in names}, "post_grad_fusion_options": {}}


def after_autograd(*names, **search):
    return {"pre_grad_fusion_options": {}, "post_grad_fusion_options": {f"batch_{name}": search for name in names}}


def fused(**passes):
    """Each label's operations are fused once, by this pass."""
    return {"all": {"fallbacks": [], "graph_breaks": 0}} | {
        label: {f"patterns.batch_{name}": 1} for label, name in passes.items()
    }


@case(
    x=tensor(5, 6, 8),
    function={
        "tanh": torch.tanh,
        "relu": functional.relu,
        "clamp": lambda x: torch.clamp(x, min=-1, max=1),
        "nan_to_num": lambda x: torch.nan_to_num(x, nan=2.0),
        "dropout": lambda x: functional.dropout(x, p=0.5, training=False),
    },
    config={"fused": before_autograd("tanh", "relu", "clamp", "nan_to_num", "dropout")},
    only=ONLY,
    require=fused(tanh="tanh", relu="relu", clamp="clamp", nan_to_num="nan_to_num", dropout="dropout"),
)
def test_one_operand(x, function):
    return torch.cat([function(x[i]) for i in FIVE])


@case(
    x=tensor(5, 6, 8),
    config={"fused": after_autograd("aten_tanh")},
    only=ONLY,
    require=fused(fused="aten_tanh"),
)
def test_one_operand_of_aten(x):
    return torch.cat([torch.tanh(x[i]) for i in FIVE])


@case(
    x=tensor(5, 6, 8),
    y=tensor(5, 6, 8),
    function={"add": lambda x, y: torch.add(x, y, alpha=2), "div": torch.div},
    config={"fused": after_autograd("aten_add", "aten_div")},
    only=ONLY,
    require=fused(add="aten_add", div="aten_div"),
)
def test_two_operands(x, y, function):
    return torch.cat([function(x[i], y[i]) for i in FIVE])


OPERANDS = {"x": tensor(5, 6, 8), "weight": tensor(5, 4, 8), "bias": tensor(5, 4)}


# Five products become one call.
@case(
    **OPERANDS,
    has_bias={"product": False, "bias": True},
    config={"batched": before_autograd("linear"), "batched_of_aten": after_autograd("linear_post_grad")},
    only=ONLY,
    require=fused(batched="linear", batched_of_aten="linear_post_grad")
    | {
        "product": {"extern": ["bmm"]},
        "bias batched_of_aten": {"extern": ["bmm"]},
        "bias batched": {"extern": ["baddbmm"]},
    },
)
def test_linear(x, weight, bias, has_bias):
    def product(i):
        return functional.linear(x[i], weight[i], bias[i] if has_bias else None)

    return torch.cat([product(i) for i in FIVE])


# With this option each bias gets the shape of its product first.
@case(
    **OPERANDS,
    config={"broadcast": after_autograd("linear_post_grad", shape_broadcast_batch_linear=True)},
    only=ONLY,
    require={"all": {"extern": ["bmm"], "patterns.batch_linear_post_grad": 1}},
    missed={"all": {"fallbacks": [], "judgement": "broadcast_to is a view, as expand is"}},
)
def test_bias_broadcast(x, weight, bias):
    def product(i):
        return functional.linear(x[i], weight[i], bias[i])

    return torch.cat([product(i) for i in FIVE])


# All layers have the same input: their weights are joined into one matrix.
@case(
    **OPERANDS,
    config={"joined": before_autograd("linear_lhs")},
    only=ONLY,
    require={"all": {"fallbacks": [], "extern": ["addmm"], "patterns.batch_linear_lhs": 1}},
)
def test_linear_of_one_input(x, weight, bias):
    first = x[0]

    def product(i):
        return functional.linear(first, weight[i], bias[i])

    return torch.cat([product(i) for i in FIVE])


@case(
    x=tensor(5, 6, 8),
    weight=tensor(5, 8),
    bias=tensor(5, 8),
    given={"plain": 0, "both": 2},
    config={"fused": before_autograd("layernorm")},
    only=ONLY,
    require={"all": INDUCTOR_ONLY | {"patterns.batch_layernorm": 1}},
)
def test_layer_norm(x, weight, bias, given):
    def norm(i):
        return functional.layer_norm(x[i], (8,), *(weight[i], bias[i])[:given])

    return torch.cat([norm(i) for i in FIVE])


# What an operation has beside its first operand stays: arguments without a name, the changed input.
@case(
    x=tensor(5, 6, 8),
    function={
        "in_place": lambda x: functional.relu(x, inplace=True),
        "nan_to_num_by_position": lambda x: torch.nan_to_num(x, 2.0),
        "clamp_by_position": lambda x: torch.clamp(x, -1, 1),
    },
    config={"fused": before_autograd("relu", "nan_to_num", "clamp")},
    only=ONLY,
    require={"all": INDUCTOR_ONLY},
)
def test_arguments_kept(x, function):
    x = x * 2
    return torch.cat([*[function(x[i]) for i in FIVE], *[x[i] for i in FIVE]])


@case(
    x=tensor(5, 6, 8),
    y=tensor(5, 6, 8),
    config={"fused": after_autograd("aten_sub")},
    only=ONLY,
    require={"all": INDUCTOR_ONLY},
)
def test_alpha_kept(x, y):
    return torch.cat([torch.sub(x[i], y[i], alpha=2) for i in FIVE])


@case(
    x=tensor(3, 6, 8),
    y=tensor(2, 6, 8, dtype="f16"),
    config={"fused": before_autograd("tanh")},
    only=ONLY,
    require={"all": INDUCTOR_ONLY},
)
def test_two_dtypes(x, y):
    return [torch.tanh(each) * 2 for each in (x[0], y[0], x[1], y[1], x[2])]


test_references = references(test_one_operand, test_two_operands, test_linear)
