"""dimensions: operators with a dimension argument, along each dimension of a square and of another tensor.

A mistake in the dimension needs a square tensor: else the wrong one cannot even be compiled. Numerics alone: the code
is that of the operators' own cases.
"""

import torch

from conformance import case, tensor

NUMERICS = ["numerics", "requirements"]
INDUCTOR = {"all": {"graph_breaks": 0}}
SHAPES = {"square": (6, 6), "other": (5, 7)}
FEW = {"for": {"gpu": {"without": {"huge": "on a device, the order of a sum decides whether it overflows"}}}}


ALONG = {
    "amax": lambda x, dim: x.amax(dim),
    "amin": lambda x, dim: x.amin(dim),
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin": lambda x, dim: x.argmin(dim),
    "all": lambda x, dim: (x > -2).all(dim),
    "any": lambda x, dim: (x > 2).any(dim),
    "count_nonzero": lambda x, dim: x.trunc().count_nonzero(dim),
    "cummax": lambda x, dim: x.cummax(dim),
    "cummin": lambda x, dim: x.cummin(dim),
    "diff": lambda x, dim: x.diff(dim=dim),
    "flip": lambda x, dim: x.flip(dim),
    "glu": lambda x, dim: torch.nn.functional.glu(torch.cat([x, x.flip(0, 1)], dim), dim),
    "kthvalue": lambda x, dim: x.kthvalue(2, dim),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "median": lambda x, dim: x.median(dim),
    "roll": lambda x, dim: x.roll(2, dim),
    "rot90": lambda x, dim: x.rot90(1, (dim, 1 - dim)),
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "sort": lambda x, dim: x.sort(dim=dim, stable=True),
    "std": lambda x, dim: x.std(dim),
    "sum": lambda x, dim: (x.sum(dim), x.sum(1 - dim, keepdim=True)),
    "topk": lambda x, dim: x.topk(3, dim),
    "unbind": lambda x, dim: [each * 2 for each in x.unbind(dim)],
    "unfold": lambda x, dim: x.unfold(dim, 3, 1) * 2,
    "vector_norm": lambda x, dim: torch.linalg.vector_norm(x, dim=dim),
}
SUMS = {
    "cumprod": lambda x, dim: x.cumprod(dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
    "mean": lambda x, dim: x.mean(dim),
    "prod": lambda x, dim: x.prod(dim),
    "renorm": lambda x, dim: x.renorm(2, dim, 1.0),
    "var": lambda x, dim: x.var(dim),
}


@case(x=tensor(), shape=SHAPES, along=ALONG | SUMS, vary="product", checks=NUMERICS, require=INDUCTOR, numerics=FEW)
def test_along(x, along):
    return along(x, 0), along(x, 1)


WRITTEN = {
    "gather": lambda x, index, _, dim: x.gather(dim, index),
    "index_add": lambda x, index, y, dim: x.index_add(dim, index[0], y, alpha=3),
    "index_copy": lambda x, _, y, dim: x.index_copy(dim, torch.arange(5, -1, -1, device=x.device), y),
    "index_fill": lambda x, index, _, dim: x.index_fill(dim, index[1], 2),
    "index_select": lambda x, index, _, dim: x.index_select(dim, index[2]),
    "scatter": lambda x, index, y, dim: x.scatter(dim, index.argsort(dim=dim, stable=True), y),
    "scatter_add": lambda x, index, y, dim: x.scatter_add(dim, index, y),
    "take_along_dim": lambda x, index, _, dim: x.take_along_dim(index, dim),
}


@case(
    x=tensor(6, 6, dtype="i64"),
    index=tensor(6, 6, dtype="i64", low=0, high=6),
    y=tensor(6, 6, dtype="i64"),
    written=WRITTEN,
    checks=NUMERICS,
    require=INDUCTOR,
)
def test_written(x, index, y, written):
    return written(x, index, y, 0), written(x, index, y, 1)


REDUCE = ["sum", "prod", "mean", "amax", "amin"]


@case(
    x=tensor(6, 6),
    index=tensor(6, 6, dtype="i64", low=0, high=4),
    y=tensor(6, 6),
    reduce=REDUCE,
    include_self=[True, False],
    vary="product",
    checks=NUMERICS,
    require=INDUCTOR,
    numerics=FEW,
)
def test_reduced(x, index, y, reduce, include_self):
    """Indices 4 and 5 do not occur: their elements keep the value of x."""
    rows = x.scatter_reduce(0, index, y, reduce, include_self=include_self)
    return rows, x.scatter_reduce(1, index, y, reduce, include_self=include_self)
