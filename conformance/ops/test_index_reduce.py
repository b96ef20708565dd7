"""index_reduce: rows reduced into the rows that an index names; put: elements written at flat positions."""

import torch

from conformance import case, references, tensor

NO_EXTERN = {"extern": [], "graph_breaks": 0}
#: On a device, atomic operations come in any order, and whether a product or a mean overflows depends on it.
ANY_ORDER = {"without": {"huge": "on a device, whether a result overflows depends on the order of atomic operations"}}


@case(
    x=tensor(6, 20),
    y=tensor(9, 20),
    index=tensor(9, dtype="i64", low=0, high=6),
    reduce={
        "largest": lambda x, index, y: x.index_reduce(0, index, y, "amax"),
        "mean": lambda x, index, y: x.index_reduce(0, index, y, "mean"),
        "mean_without_self": lambda x, index, y: x.index_reduce(0, index, y, "mean", include_self=False),
        "product_of_columns": lambda x, index, y: x.index_reduce(1, index, y[:6, :9], "prod"),
    },
    require={"all": NO_EXTERN},
    numerics={"for": {"gpu": ANY_ORDER}},
)
def test_reduced(x, y, index, reduce):
    return reduce(x, index, y)


# Positions count the elements of all rows; one is below 0.
@case(
    x=tensor(6, 20),
    y=tensor(3),
    put={"replaced": {}, "added": {"accumulate": True}},
    require={"all": NO_EXTERN},
)
def test_put(x, y, put):
    return x.put(torch.tensor([0, 29, -3], device=x.device), y, **put)


test_references = references(test_reduced, test_put)
