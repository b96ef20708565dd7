"""nested_region: a function that torch.compiler.nested_compile_region compiles once, for all calls in a graph."""

import torch

from conformance import case, tensor

ONE_GRAPH = {"graph_breaks": 0, "fallbacks": []}


@torch.compiler.nested_compile_region
def layer(x, y):
    return x.sin() - 2 * y


@torch.compiler.nested_compile_region
def pair(x):
    return x.sum(0), x.exp()


@case(x=tensor(7, 33), y=tensor(7, 33), grad=[False, True], require={"all": ONE_GRAPH})
def test_two_calls(x, y):
    return layer(layer(x, y), y)


# The second call has another shape, so the region is compiled twice.
@case(x=tensor(7, 33), require={"all": ONE_GRAPH})
def test_two_shapes(x):
    return pair(x), pair(x[:, :5])


# In one of the calls, both arguments are the same tensor.
@case(
    x=tensor(7, 33),
    y=tensor(7, 33),
    same={
        "first": lambda x, y: (layer(x, x), layer(y, x)),
        "later": lambda x, y: (layer(y, x), layer(x, x)),
    },
    require={"all": ONE_GRAPH},
)
def test_same_argument(x, y, same):
    return same(x, y)
