"""foreach_map: one function for each tensor of a list, in one kernel; and operators of torch for lists."""

from torch import _foreach_lerp
from torch._higher_order_ops.foreach_map import foreach_map

from conformance import case, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}


@case(
    a=tensor(7, 33),
    b=tensor(40),
    mapped={
        "one_list": lambda a, b: foreach_map(lambda x: x.sin() * 2 + 1, [a, b]),
        "two_lists": lambda a, b: foreach_map(lambda x, y: x.sin() - y, [a, b], [a.cos(), b.cos()]),
    },
    require={"all": INDUCTOR_ONLY, "gpu one_list": {"kernels": 1}},
)
def test_mapped(a, b, mapped):
    return mapped(a, b)


@case(
    a=tensor(7, 33),
    b=tensor(40),
    weight={"one": 0.3, "one_each": [0.3, 0.75]},
    require={"all": {"extern": [], "graph_breaks": 0}, "one": {"fallbacks": []}},
    missed={
        "one_each": {
            "fallbacks": [],
            "judgement": "each tensor times its own number is no harder than all times one number",
        }
    },
)
def test_lerp(a, b, weight):
    return _foreach_lerp([a, b], [a.cos(), b.cos()], weight)
