"""memory_planning: Inductor plans the memory of all buffers at once. Each buffer is a place in a pool.

The option memory_planning asks for it. Inductor then ignores it for graphs with gradients.
"""

import torch

from conformance import case, tensor

INDUCTOR_ONLY = {"fallbacks": [], "graph_breaks": 0}
OVERFLOW = {"without": {"huge": "whether a sum overflows depends on its order"}}
PLANNED = {"memory_planning": True}


def pools(number, **further):
    """What is required of a graph whose buffers are in this number of pools."""
    return INDUCTOR_ONLY | {"buffers.pools": number, "buffers.reused": 0} | further


# "none": buffers share memory only if they have one size. "intermediates": all but the results are in one pool.
# "outputs": the results are in one pool too. "combined": everything is in one.
@case(
    x=tensor(8, 8),
    config={name: PLANNED | {"memory_pool": name} for name in ("none", "intermediates", "outputs", "combined")},
    require={
        "all": INDUCTOR_ONLY,
        "none": pools(4),
        "intermediates": pools(4),
        "outputs": pools(2),
        "combined": pools(1),
    },
    numerics=OVERFLOW,
)
def test_products(x):
    a = torch.relu(x @ x)
    b = torch.relu(a @ x)
    c = b @ a
    return c + 1, torch.relu(c @ b), b.sum(0)


# Buffers of several sizes and dtypes. With dynamic shapes, the code computes the places when it runs.
@case(
    x=tensor(8, 16),
    y=tensor(30, 16),
    dynamic=[False, True],
    config={"planned": PLANNED},
    require={"all": pools(4)},
)
def test_sizes(x, y):
    a = torch.sin(x @ y.T)
    b = torch.softmax(a @ y, -1)
    c = (b @ x.T).double()
    return c @ c.T, torch.relu(a @ y), b.mean(0)


# The largest buffer is freed before the two others are made: together they are larger, so their pool grows.
@case(x=tensor(8, 16), w=tensor(16, 100), config={"planned": PLANNED}, require={"all": pools(2)})
def test_pool_grows(x, w):
    narrow = torch.tanh((x @ w) @ w.T)
    return (narrow @ w[:, :80]).cos().sum(-1) + (narrow @ w[:, :50]).cos().sum(-1)


# A pool with such a buffer can be allocated only when its size is known.
@case(
    x=tensor(8, 9),
    config={"planned": PLANNED | {"dynamo.capture_dynamic_output_shape_ops": True}},
    require={"all": {"graph_breaks": 0, "buffers.pools": ">=1"}},
)
def test_unknown_sizes(x):
    before = torch.relu(x @ x.T)
    chosen = torch.relu(x[x[:, 0] > 0] @ x.T)
    return torch.cos(chosen @ before), torch.sin(before @ before)


# The parts are written into the result of torch.cat: they have no memory of their own.
@case(x=tensor(6, 10), config={"planned": PLANNED}, require={"all": pools(2)})
def test_parts_of_a_whole(x):
    whole = torch.cat([x.exp(), x.flip(0), x.softmax(1)])
    return whole @ x.T


@case(
    x=tensor(8, 8),
    grad=True,
    config={"planned": PLANNED},
    require={"all": INDUCTOR_ONLY | {"buffers.pools": 0}},
)
def test_with_gradients(x):
    return torch.sin(torch.cos(x @ x) @ x)
