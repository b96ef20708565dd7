"""nested_region: a function that torch.compiler.nested_compile_region compiles once, for all calls in a graph."""

import torch

from conformance import case, module, tensor

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


class Wave(torch.nn.Module):
    def __init__(self, sine):
        super().__init__()
        self.sine = sine


@torch.compiler.nested_compile_region
def inner(wave, x):
    return x.sin() if wave.sine else x.cos()


@torch.compiler.nested_compile_region
def outer(wave, x):
    return inner(wave, x) + 1


# The region in the other one depends on an attribute.
@case(
    waves=module(lambda: torch.nn.ModuleList([Wave(True), Wave(False)])),
    x=tensor(5, 7),
    checks=("numerics",),
)
def test_region_in_a_region(waves, x):
    for wave in waves:
        x = outer(wave, x)
    return x


class Latest:
    value = torch.zeros(())


latest = Latest()


@torch.compiler.nested_compile_region
def next_of_latest():
    return latest.value + 1


# Between the calls, a global gets another object.
@case(x=tensor(5, 7), checks=("numerics",))
def test_region_of_a_global(x):
    global latest  # noqa: PLW0603 - the case is about it
    for _ in range(2):
        latest = Latest()
        latest.value = x
        x = next_of_latest()
    return x
