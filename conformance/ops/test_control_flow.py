"""control_flow: torch.cond, while_loop, scan, map and associative_scan, whose branches and bodies are subgraphs."""

import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped

from conformance import case, tensor

ONE_GRAPH = {"graph_breaks": 0, "fallbacks": []}
#: PyTorch turns scan and map into a while_loop that reads its counter as a number, which needs this option.
SCALARS = {"dynamo.capture_scalar_outputs": True}
BRANCH = {"without": {"huge": "whether the condition's sum overflows depends on its order"}}


@case(
    x=tensor(100),
    grad=[False, True],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": ONE_GRAPH},
)
def test_cond(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


# An input selects the branch.
@case(x=tensor(50), flag=tensor(shape={"one": ()}, dtype="bool"), require={"all": ONE_GRAPH})
def test_cond_of_a_flag(x, flag):
    return torch.cond(flag, lambda x: (x + 1, x.exp()), lambda x: (x - 1, x.abs()), (x,))


@case(
    x=tensor(4, 20),
    y=tensor(20),
    grad=[False, True],
    require={"all": ONE_GRAPH},
    numerics={"for": {"backward": BRANCH}},
)
def test_cond_with_closures(x, y):
    doubled = y * 2

    def true(x):
        return x * doubled

    def false(x):
        return x + y.sum()

    return torch.cond(x.mean() > y.mean(), true, false, (x,)) * 3


@case(x=tensor(60), require={"all": ONE_GRAPH})
def test_nested_cond(x):
    def positive(x):
        return torch.cond(x.max() > 2, lambda x: x.sin(), lambda x: x * 2, (x,))

    return torch.cond(x.sum() > 0, positive, lambda x: x - 1, (x,))


# The branches have a library call, a reduction and a scan.
@case(x=tensor(8, 16), w=tensor(16, 16), require={"all": {"graph_breaks": 0}})
def test_cond_with_a_product(x, w):
    return torch.cond(x.sum() > 0, lambda x, w: (x @ w).softmax(-1), lambda x, _: x.cumsum(-1), (x, w))


@case(x=tensor(4, 16), require={"all": ONE_GRAPH}, numerics={"fill": {"output[0]": "the loop runs three times"}})
def test_while_loop(x):
    count = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda n, _: n < 3, lambda n, x: (n + 1, x * 0.5 + 1), (count, x))


# An input says how often the loop runs.
@case(
    x=tensor(30),
    n=tensor(shape={"one": ()}, dtype="i32", low=0, high=5),
    dtype="f32",
    require={"all": {"graph_breaks": 0}},
    numerics={
        "fill": {"output[0]": "the loop runs until its counter is 0"},
    },
)
def test_while_loop_of_any_length(x, n):
    return while_loop(lambda n, _: n > 0, lambda n, x: (n - 1, x.sin() + x), (n, x))


@case(
    x=tensor(5, 12),
    h=tensor(12),
    reverse={"forwards": False, "backwards": True},
    grad=[False, True],
    vary="one_at_a_time",
    config={"numbered": SCALARS},
    require={"all": {"graph_breaks": 0}},
)
def test_scan(x, h, reverse):
    return scan(lambda h, x: (h * 0.5 + x, h.sin()), h, x, dim=0, reverse=reverse)


@case(
    x=tensor(4, 12),
    y=tensor(12),
    grad=[False, True],
    config={"numbered": SCALARS},
    require={"all": {"graph_breaks": 0}},
)
def test_map(x, y):
    return mapped(lambda x, y: x * y + x.exp(), x, y)


# One kernel: Triton's scan calls the function.
@case(
    x=tensor(shape=[(60, 4), (1025, 3)]),
    reverse={"forwards": False, "backwards": True},
    vary="one_at_a_time",
    only={"gpu": "PyTorch refuses combine_mode='pointwise' on the CPU"},
    require={"all": {"fallbacks": [], "graph_breaks": 0}, "forwards": {"kernels": 1}},
    numerics={"exact": True},
)
def test_associative_scan(x, reverse):
    return associative_scan(torch.maximum, x, dim=0, reverse=reverse, combine_mode="pointwise")


# A linear recurrence, h = a * h + b: the function takes and returns pairs.
@case(
    a=tensor(40, 3, low=0.5, high=0.9),
    b=tensor(40, 3),
    only={"gpu": "PyTorch refuses combine_mode='pointwise' on the CPU"},
    require={"all": {"fallbacks": [], "graph_breaks": 0}},
    numerics={"reference": "eager", "reason": "PyTorch refuses it on the CPU, where the float64 reference is computed"},
)
def test_recurrence(a, b):
    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return associative_scan(combine, (a, b), dim=0, combine_mode="pointwise")


# PyTorch turns it into steps of ordinary operators, about log2(length) of them.
@case(x=tensor(9, 8), require={"all": {"graph_breaks": 0}})
def test_generic_associative_scan(x):
    return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")


# The function changes x too, before the loop.
@case(
    x=tensor(5),
    mode="no_grad",
    only={"torch>=2.13": "torch 2.11 refuses a condition that changes what it takes from outside"},
    checks=("numerics",),
)
def test_condition_that_counts(x):
    def goes_on(n):
        x.add_(1)
        return n < 3

    x.add_(1)
    (n,) = while_loop(goes_on, lambda n: (n + 1,), (torch.zeros((), dtype=torch.int64, device=x.device),))
    return n, x.clone()


@case(x=tensor(4, 6), checks=("numerics",))
def test_cond_with_a_scatter(x):
    def scattered(x):
        index = torch.tensor([[0, 0, 1], [1, 1, 2], [2, 2, 0], [0, 0, 2]], device=x.device)
        return x[:, ::2].scatter_add(1, index, torch.ones(4, 3, device=x.device))

    return torch.cond(x.sum() > 0, scattered, lambda x: x[:, 1::2] - 3, (x,))
