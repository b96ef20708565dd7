"""indexing: elements at computed positions: gather, scatter, index_put, embedding, masks."""

import torch

from conformance import case, references, tensor

functional, aten = torch.nn.functional, torch.ops.aten

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
EXACT = {"exact": True}


@case(
    x=tensor(20, 33),
    index=tensor(20, 9, dtype=["i64", "i32"], low=0, high=33),
    dtype=["f32", "bf16", "u8"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_gather(x, index):
    return x.gather(1, index.long())


@case(
    x=tensor(20, 33), index=tensor(20, 9, dtype="i64", low=0, high=33), grad="x", require={"all": {"graph_breaks": 0}}
)
def test_gather_backward(x, index):
    return x.gather(1, index)


@case(
    x=tensor(20, 33, dtype=["f32", "u8"]),
    index=tensor(12, dtype="i64", low=0, high=20),
    dim={"rows": 0, "columns": 1},
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_index_select(x, index, dim):
    return x.index_select(dim, index)


@case(
    x=tensor(20, 33),
    index=tensor(7, dtype="i64", low=-20, high=20),
    grad={"forward": "", "backward": "x"},
    require={"forward": ONE_KERNEL, "all": {"graph_breaks": 0}},
)
def test_negative_indices(x, index):
    return x[index] * 2


# Inductor knows these indices as expressions, and not as values that are read.
@case(x=tensor(20, 33), require={"all": ONE_KERNEL}, numerics=EXACT)
def test_positions_below_zero(x):
    return x[torch.arange(9, device=x.device) - 4]


# The number of rows does not fit into 32 bits. They are one row in memory.
@case(
    x=tensor(1, 33),
    index=tensor(7, dtype="i64", low=-8, high=0),
    only={"cpu": "where a GPU is pretended, eager copies all rows before it reads some"},
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_from_the_end_of_many_rows(x, index):
    return x.expand(2**31 + 8, 33)[index]


# Each position occurs once: the result of several writes to one position is not defined.
@case(
    x=tensor(20, 33),
    y=tensor(20, 33),
    dtype=["f32", "bf16", "i32"],
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics=EXACT,
)
def test_scatter(x, y):
    index = torch.arange(32, -1, -1, device=x.device).expand(20, 33)
    return x.scatter(1, index, y)


@case(
    x=tensor(20, 33, dtype=["f32", "i32"]),
    index=tensor(20, 33, dtype="i64", low=0, high=33),
    y=tensor(20, 33, dtype="i32"),
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_scatter_add(x, index, y):
    return x.scatter_add(1, index, y.to(x.dtype))


@case(
    x=tensor(20, 33),
    index=tensor(50, dtype="i64", low=0, high=20),
    y=tensor(50, 33),
    reduce=["amax", "sum"],
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_index_reduce(x, index, y, reduce):
    return x.scatter_reduce(0, index[:, None].expand(50, 33), y, reduce)


@case(
    x=tensor(20, 33),
    index=tensor(50, dtype="i64", low=0, high=20),
    y=tensor(50, 33),
    dtype=["f32", "bf16", "i32"],
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_index_add(x, index, y):
    return x.index_add(0, index, y)


# Eager refuses an index below 0. On a GPU that would end the process, so no index is below 0 there.
@case(
    x=tensor(20, 33),
    index=tensor(4, dtype="i64", low=-20, high=0),
    y=tensor(4, 33),
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics={
        "for": {
            "cpu": {"raises": "RuntimeError"},
            "gpu": {"reference": "eager", "reason": "the float64 reference is computed on the CPU, where it raises"},
        }
    },
)
def test_index_add_below_zero(x, index, y):
    return x.index_add(0, index if x.device.type == "cpu" else torch.arange(4, device=x.device), y)


@case(
    x=tensor(8, 8),
    order={"as_it_is": lambda place: place, "reversed": lambda place: 7 - place},
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_mask_by_index(x, order):
    place = torch.arange(8, device=x.device)
    mask = torch.full((8, 8), -10000.0, device=x.device)
    mask[place[:, None], order(place)] = 0
    return torch.softmax(x + mask, -1)


@case(
    x=tensor(20, 33),
    index=tensor(5, dtype="i64", low=0, high=20),
    accumulate={"replace": False, "add": True},
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_index_put(x, index, accumulate):
    return aten.index_put(x, [index], torch.ones((), device=x.device), accumulate)


@case(
    index=tensor(4, 10, dtype=["i64", "i32"], low=0, high=30),
    weight=tensor(30, 16),
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_embedding(index, weight):
    return functional.embedding(index, weight)


@case(
    index=tensor(4, 10, dtype="i64", low=0, high=30),
    weight=tensor(30, 16),
    grad="weight",
    padding={"all_rows": None, "padding": 3},
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_embedding_backward(index, weight, padding):
    return functional.embedding(index, weight, padding_idx=padding)


@case(index=tensor(40, dtype="i64", low=0, high=30), weight=tensor(30, 16), require={"all": {"graph_breaks": 0}})
def test_embedding_bag(index, weight):
    return functional.embedding_bag(index, weight, torch.tensor([0, 7, 7, 25], device=index.device), mode="mean")


@case(
    x=tensor(20, 33),
    mask=tensor(20, 33, dtype="bool"),
    dtype=["f32", "bf16", "u8"],
    require={"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}},
    numerics=EXACT,
)
def test_masked_fill(x, mask):
    return x.masked_fill(mask, 3)


@case(x=tensor(257), y=tensor(257), mask=tensor(257, dtype="bool"), dtype=["f32", "i64"], require={"all": ONE_KERNEL})
def test_where(x, y, mask):
    return torch.where(mask, x, y)


@case(x=tensor(100, dtype=["f32", "i32"]), require={"all": {"extern": [], "graph_breaks": 1}}, numerics=EXACT)
def test_nonzero(x):
    return torch.nonzero(x > 0)


@case(x=tensor(9, 20), require={"all": INDUCTOR_ONLY, "cpu": {"kernels": 1}}, numerics=EXACT)
def test_slices(x):
    return x[1::2, ::3] + 1, x[:, -4:] + 1, x[..., 5] + 1


@case(
    x=tensor(9, 20),
    y=tensor(4, 20),
    require={"all": {"graph_breaks": 0, "extern": [], "fallbacks": []}},
    numerics=EXACT,
)
def test_slice_scatter(x, y):
    return torch.slice_scatter(x, y, 0, 1, 9, 2)


@case(
    x=tensor(16, low=0, high=10),
    edges=tensor(5, low=0, high=10),
    require={"all": {"graph_breaks": 0}},
    numerics=EXACT,
)
def test_bucketize(x, edges):
    return torch.bucketize(x, edges.sort().values)


test_references = references(
    test_gather,
    test_gather_backward,
    test_index_select,
    test_negative_indices,
    test_scatter,
    test_scatter_add,
    test_index_reduce,
    test_index_add,
    test_index_add_below_zero,
    test_mask_by_index,
    test_index_put,
    test_masked_fill,
    test_where,
    test_nonzero,
    test_slices,
    test_slice_scatter,
    test_bucketize,
)
test_references_of_embeddings = references(test_embedding, test_embedding_backward, test_embedding_bag)

# These refuse an index below 0, unlike x[index]. On a GPU no index is below 0, as above.
BELOW_ZERO = {
    "select": lambda x, index, y: x.index_select(0, index) + y,
    "copy": lambda x, index, y: x.index_copy(0, index, y),
    "embedding": lambda x, index, y: functional.embedding(index, x) + y,
}


@case(
    x=tensor(20, 33),
    index=tensor(4, dtype="i64", low=-20, high=0),
    y=tensor(4, 33),
    indexed=BELOW_ZERO,
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics={
        "for": {
            "cpu": {"raises": "IndexError"},
            "gpu": {"reference": "eager", "reason": "the float64 reference is computed on the CPU, where it raises"},
        }
    },
)
def test_below_zero(x, index, y, indexed):
    return indexed(x, index if x.device.type == "cpu" else torch.arange(4, device=x.device), y)


#: The rows of an expanded tensor are one row in memory. In these results, each row is separate.
TO_A_ROW = {
    "add": lambda x, index, y: x.index_add(0, index, y),
    "fill": lambda x, index, y: x.index_fill(0, index, 1.0) + y,
    "put": lambda x, index, y: x.index_put((index,), y),
}


@case(
    index=tensor(1, dtype="i64", low=0, high=4),
    y=tensor(1, 33),
    write=TO_A_ROW,
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_row_of_expanded(index, y, write):
    return write(y.new_zeros(1, 33).expand(4, -1), index, y)
