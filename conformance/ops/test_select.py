"""select: elements selected by position or by a mask: gather, index_select, take, where, nonzero; of many dtypes."""

import torch

from conformance import case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
EXACT = {"exact": True}

#: x has shape (20, 33); index has shape (9, 5) and values from 0 to 19.
PICKED = {
    "gather_rows": lambda x, index: x.gather(0, index),
    "take": lambda x, index: x.take(index.long()),
    "index_select": lambda x, index: x.index_select(1, index[0]),
    "rows_and_columns": lambda x, index: x[index[:, 0], index[:, 1]],
    "middle": lambda x, index: x.view(4, 5, 33)[:, index[0] % 5, 2:9],
    "apart": lambda x, index: x.view(4, 5, 33)[index[0] % 4, :, index[1]],
    "below_zero": lambda x, index: x[-1 - index[:, 0]] + 1,
}


@case(
    x=tensor(20, 33),
    index=tensor(9, 5, dtype=["i64", "i32"], low=0, high=20),
    picked=PICKED,
    dtype=["f32", "i8", "bool"],
    vary="one_at_a_time",
    also=[{"picked": "index_select", "dtype": "bool"}],
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_picked(x, index, picked):
    return picked(x, index)


@case(
    x=tensor(20, 33),
    index=tensor(9, 5, dtype="i64", low=0, high=20),
    picked={name: PICKED[name] for name in ("gather_rows", "index_select", "rows_and_columns")},
    dtype=["f32", "bf16"],
    grad="x",
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_backward(x, index, picked):
    return picked(x, index)


@case(
    x=tensor(20, 33, layout=["transposed", "expanded"]),
    index=tensor(9, dtype="i64", low=0, high=20, layout=["contiguous", "strided"]),
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_rows_of_layouts(x, index):
    return x[index]


MASKED = {
    "fill": lambda x, _, mask: x.masked_fill(mask, 2),
    "where": lambda x, y, mask: torch.where(mask, x, y),
    "where_promoted": lambda x, y, mask: torch.where(mask, x, y.float()),
    "rows": lambda x, y, mask: torch.where(mask[:, :1], x, y),
    "scatter": lambda x, y, mask: x.masked_scatter(mask, y),
}


@case(
    x=tensor(9, 37),
    y=tensor(9, 37),
    mask=tensor(9, 37, dtype="bool"),
    masked=MASKED,
    dtype=["i16", "f64", "i8"],
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics=EXACT,
)
def test_masked(x, y, mask, masked):
    return masked(x, y, mask)


@case(
    x=tensor(9, 37),
    y=tensor(9, 37),
    mask=tensor(9, 37, dtype="bool"),
    masked={name: MASKED[name] for name in ("fill", "rows", "scatter")},
    grad="x y",
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_masked_backward(x, y, mask, masked):
    return masked(x, y, mask)


# The size of the result depends on the values, so it is not known at compile time.
COUNTED = {
    "masked_select": lambda x: x.masked_select(x > 0),
    "boolean_index": lambda x: x[x > 0] * 2,
    "argwhere": torch.argwhere,
    "unique": torch.unique,
}


@case(
    x=tensor(6, 20, low=-3, high=4, dtype="i16"),
    counted=COUNTED,
    config={"scalars": {"dynamo.capture_scalar_outputs": True, "dynamo.capture_dynamic_output_shape_ops": True}},
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0}},
    numerics=EXACT,
)
def test_counted(x, counted):
    return counted(x)


test_references = references(test_picked, test_backward, test_masked, test_masked_backward)
