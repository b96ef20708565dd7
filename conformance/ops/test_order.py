"""order: sorting, the k largest, medians, and searching among sorted values."""

import torch

from conformance import case, references, tensor

NO_EXTERN = {"extern": [], "graph_breaks": 0}


@case(
    x=tensor(6, 20, dtype=["f32", "bf16"]),
    function={
        "columns": lambda x: torch.sort(x, dim=0, stable=True),
        "descending": lambda x: torch.sort(x, dim=-1, stable=True, descending=True),
    },
    vary="one_at_a_time",
    require={"all": NO_EXTERN},
    numerics={"exact": True},
)
def test_sort(x, function):
    return function(x)


# Only values: the order of equal elements is not defined.
@case(
    x=tensor(6, 20),
    function={
        "topk": lambda x: x.topk(3, -1).values,
        "smallest_of_columns": lambda x: x.topk(2, 0, largest=False).values,
        "nanmedian": lambda x: x.nanmedian(-1).values,
    },
    require={"all": NO_EXTERN},
    numerics={"exact": True},
)
def test_select(x, function):
    return function(x)


@case(
    x=tensor(6, 20),
    function={
        "sort": lambda x: torch.sort(x, dim=-1, stable=True).values,
        "median": lambda x: x.median(-1).values,
    },
    grad=True,
    require={"all": NO_EXTERN},
    numerics={
        "for": {
            "cuda median": {
                "without": {"ties": "on a device, which of the equal elements gets the gradient differs between runs"}
            }
        }
    },
)
def test_backward(x, function):
    return function(x)


@case(
    x=tensor(40, low=0, high=9),
    right=[False, True],
    require={"all": NO_EXTERN, "gpu": {"fallbacks": []}},
    missed={"cpu": {"fallbacks": [], "judgement": "a search among four boundaries is a loop, which could be fused"}},
    numerics={"exact": True, "branch": [0.0, 1.0, 2.5, 6.0]},
)
def test_bucketize(x, right):
    return torch.bucketize(x, torch.tensor([0, 1, 2.5, 6], device=x.device), right=right)


@case(
    x=tensor(7, 10),
    y=tensor(7, 5),
    require={"all": NO_EXTERN, "gpu": {"fallbacks": []}},
    numerics={
        "exact": True,
        "for": {"gpu": {"without": {"x": "x must be sorted for a search, and with NaN it is not"}}},
    },
)
def test_searchsorted(x, y):
    return torch.searchsorted(x.sigmoid().cumsum(-1), y)


test_references = references(test_sort, test_select, test_backward, test_bucketize, test_searchsorted)
