"""scatter: writing to computed positions: scatter and its reductions, index_add, index_copy, index_put."""

import torch

from conformance import case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
NO_EXTERN = {"extern": [], "graph_breaks": 0}
EXACT = {"exact": True}
ATOMIC = {
    "without": {
        "huge": "on a device, atomic operations come in any order, and whether a result overflows depends on it"
    }
}

#: Each position occurs once: the result of several writes to one position is not defined.
WRITTEN = {
    "scatter": lambda x, y, order: x.scatter(0, order[:, None].expand(7, 20), y),
    "index_copy": lambda x, y, order: x.index_copy(0, order, y),
    "index_fill": lambda x, _, order: x.index_fill(1, order, 2),
    "put_rows": lambda x, y, order: x.index_put((order,), y),
    "put_places": lambda x, y, order: x.index_put((order, order + 1), y[:, 0]),
    "put_mask": lambda x, y, _: x.index_put((x[:, 0] > 0,), y[0]),
}


@case(
    x=tensor(12, 20),
    y=tensor(7, 20),
    written=WRITTEN,
    dtype=["f32", "f16", "i8"],
    vary="one_at_a_time",
    require={"all": NO_EXTERN},
    numerics=EXACT,
)
def test_written(x, y, written):
    order = torch.arange(6, -1, -1, device=x.device)
    return written(x, y, order)


@case(
    x=tensor(12, 20),
    y=tensor(7, 20),
    written={name: WRITTEN[name] for name in ("scatter", "index_copy")},
    grad=True,
    require={"all": NO_EXTERN},
    numerics=EXACT,
)
def test_written_backward(x, y, written):
    order = torch.arange(6, -1, -1, device=x.device)
    return written(x, y, order)


ADDED = {
    "scatter_add": lambda x, y, index: x.scatter_add(0, index[:, None].expand(30, 20), y),
    "index_add": lambda x, y, index: x.index_add(0, index, y, alpha=2),
    "index_put": lambda x, y, index: x.index_put((index,), y, accumulate=True),
    "put_places": lambda x, y, index: x.index_put((index, index + 1), y[:, 0], accumulate=True),
}


@case(
    x=tensor(12, 20),
    y=tensor(30, 20),
    index=tensor(30, dtype="i64", low=0, high=12),
    added=ADDED,
    dtype=["f32", "f64", "bf16"],
    vary="one_at_a_time",
    require={"all": NO_EXTERN},
    numerics={"for": {"gpu": ATOMIC}},
)
def test_added(x, y, index, added):
    return added(x, y, index)


@case(
    x=tensor(12, 20),
    y=tensor(30, 20),
    index=tensor(30, dtype="i64", low=0, high=12),
    added={name: ADDED[name] for name in ("index_add", "put_places")},
    grad="x y",
    require={"all": NO_EXTERN},
    numerics={"for": {"gpu": ATOMIC}},
)
def test_added_backward(x, y, index, added):
    return added(x, y, index)


@case(
    x=tensor(12, 20),
    y=tensor(30, 20),
    index=tensor(30, dtype="i64", low=0, high=12),
    reduce=["amin", "amax", "prod", "mean"],
    include={"with_self": True, "without_self": False},
    dtype=["f32", "i32"],
    vary="one_at_a_time",
    require={"all": NO_EXTERN},
    numerics={"for": {"gpu prod": ATOMIC, "gpu mean": ATOMIC}},
)
def test_reduced(x, y, index, reduce, include):
    return x.scatter_reduce(0, index[:, None].expand(30, 20), y, reduce, include_self=include)


@case(
    x=tensor(12, 20),
    y=tensor(30, 20),
    index=tensor(30, dtype="i64", low=0, high=12),
    reduce=["amax"],
    grad="x y",
    require={"all": NO_EXTERN},
)
def test_reduced_backward(x, y, index, reduce):
    return x.scatter_reduce(0, index[:, None].expand(30, 20), y, reduce)


# index has more rows than x, so rows are written more than once.
@case(
    x=tensor(12, 20),
    index=tensor(30, 20, dtype="i64", low=0, high=12),
    reduce={"replace": {}, "add": {"reduce": "add"}, "multiply": {"reduce": "multiply"}},
    require={"all": NO_EXTERN},
)
def test_value(x, index, reduce):
    return x.scatter(0, index, 2.5, **reduce)


# Counts how often each of 9 classes occurs.
@case(index=tensor(40, dtype="i64", low=0, high=9), require={"all": NO_EXTERN}, numerics=EXACT)
def test_counted(index):
    ones = torch.ones(40, dtype=torch.int64, device=index.device)
    return torch.zeros(9, dtype=torch.int64, device=index.device).scatter_add(0, index, ones)


# A mask sets elements of what a scatter wrote.
@case(x=tensor(6, 6), y=tensor(4, 6), mask=tensor(6, 6, dtype="bool"), checks=["numerics"])
def test_set_by_a_mask(x, y, mask):
    written = x.scatter(0, torch.arange(3, -1, -1, device=x.device)[:, None].expand(4, 6), y)
    written[mask] = 0.125
    return written


# What is written to in place keeps its layout.
@case(
    x=tensor(5, 7, layout="transposed"),
    y=tensor(5, 7),
    written={
        "index_add": lambda x, y, order: x.index_add_(0, order, y),
        "index_copy": lambda x, y, order: x.index_copy_(0, order, y),
        "masked_scatter": lambda x, y, order: x.masked_scatter_((order > 2)[:, None], y),
        "scatter_add": lambda x, y, order: x.scatter_add_(0, order[:, None].expand(5, 7), y),
    },
    checks=["numerics"],
)
def test_in_place_by_columns(x, y, written):
    written(x, y, torch.arange(4, -1, -1, device=x.device))
    return x * 2


@case(x=tensor(15), y=tensor(1, 3), index=tensor(1, dtype="i64", low=0, high=5), checks=["numerics"])
def test_row_of_a_view(x, y, index):
    return x.view(3, 5).t().index_add_(0, index, y)


# All values are added to one element.
@case(x=tensor(1), y=tensor(100), checks=["numerics"])
def test_many_into_one(x, y):
    index = torch.zeros(100, dtype=torch.int64, device=x.device)
    return x.index_put((index,), y, accumulate=True)


@case(x=tensor(5, 7, layout="transposed"), y=tensor(3), checks=["numerics"])
def test_put_by_columns(x, y):
    return x.put(torch.tensor([1, 4, 9], device=x.device), y)


# The result is a tensor of its own, and not the end of a larger one.
@case(x=tensor(6), y=tensor(1), checks=["numerics"])
def test_into_a_part(x, y):
    return x.repeat(2)[4:].index_put((torch.tensor([3], device=x.device),), y)


test_references = references(
    test_written, test_written_backward, test_added, test_added_backward, test_reduced, test_reduced_backward
)
