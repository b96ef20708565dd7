"""view: the same elements in another order or another shape: permutations, diagonals, triangles, windows."""

import torch

from conformance import case, references, tensor

functional = torch.nn.functional

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
EXACT = {"exact": True}

#: Each function adds 1 or copies, so that there is a kernel: a view alone needs none.
ORDERS = {
    "permute": lambda x: x.permute(2, 0, 1) + 1,
    "transposed_flattened": lambda x: x.mT.flatten(),
    "transposed_reshaped": lambda x: x.mT.reshape(9, -1) + 1,
    "unflattened": lambda x: x.unflatten(-1, (2, 6)).transpose(1, 3).contiguous(),
    "roll_all": lambda x: x.roll((1, -2, 5), (0, 1, 2)),
    "roll_flat": lambda x: x.roll(7),
    "diagonal": lambda x: x.diagonal(1, 1, 2) + 1,
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "strided_steps": lambda x: x[::2, 1::3, ::5] + 1,
}


@case(
    x=tensor(3, 9, 12),
    order=ORDERS,
    dtype=["i16", "bf16"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_order(x, order):
    return order(x)


@case(
    x=tensor(9, 20, layout=["transposed", "sliced", "offset", "strided", "expanded"]),
    dtype=["f32", "u8"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL, "gpu expanded": {"kernels": 2}},  # one for one row, one for all
    numerics=EXACT,
)
def test_contiguous(x):
    return x.clone(memory_format=torch.contiguous_format), x.T + 1


@case(
    x=tensor(2, 5, 7, 9, layout=["contiguous", "channels_last"]),
    to={"contiguous": torch.contiguous_format, "channels_last": torch.channels_last},
    dtype=["bf16", "i8"],
    vary="one_at_a_time",
    also=[{"x.layout": "channels_last", "to": "channels_last"}],
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_memory_format(x, to):
    return (x + 1).contiguous(memory_format=to)


@case(x=tensor(1, 4, 3, 5, 6), require={"all": ONE_KERNEL}, numerics=EXACT)
def test_channels_last_3d(x):
    return x.to(memory_format=torch.channels_last_3d)


FLAT = {
    "diag_off": lambda x: x[0].diag(-2),
    "diag_embed": lambda x: x.diag_embed(1),
    "diag_embed_apart": lambda x: x.diag_embed(0, 0, 2),
    "windows": lambda x: x.unfold(1, 4, 2) + 1,
    "as_strided": lambda x: x.as_strided((3, 4), (2, 3), 1) + 1,
}


@case(
    x=tensor(3, 10),
    flat=FLAT,
    dtype=["f32", "i64"],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT,
)
def test_flat(x, flat):
    return flat(x)


@case(
    x=tensor(9, 9, dtype=["f16", "bool"]),
    triangle={"lower": lambda x: x.tril(1), "upper": lambda x: x.triu(-2)},
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_triangle(x, triangle):
    return triangle(x)


#: Bits that are read as another dtype: of the same width, narrower, and wider.
CASTS = {
    "f32_as_i32": (torch.float32, torch.int32),
    "f32_as_u8": (torch.float32, torch.uint8),
    "i16_as_i64": (torch.int16, torch.int64),
}


@case(
    x=tensor(6, 8, low=-3, high=4),
    cast=CASTS,
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_bits(x, cast):
    first, second = cast
    return (x.to(first) * 2).view(second) + 1


GRADIENTS = {
    "repeat": lambda x: x.repeat(2, 1, 3),
    "windows": lambda x: x.unfold(2, 5, 2) * 2,
    "as_strided": lambda x: x.as_strided((4, 5), (3, 2), 1) * 2,
    "diagonal": lambda x: x.diagonal(0, 1, 2) * 2,
    "diag_embed": lambda x: x.diag_embed(),
    "steps": lambda x: x[::2, 1::3, ::5] * 2,
}


@case(
    x=tensor(3, 9, 12),
    view=GRADIENTS,
    grad=True,
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    also=[{"view": "windows", "dtype": "bf16"}],
    # only sm90 and newer add bfloat16 atomically
    require={
        "all": INDUCTOR_ONLY,
        "cuda_sm80 windows bf16": {"fallbacks": ["aten.index_put_"]},
        "xpu windows bf16": {"fallbacks": ["aten.index_put_"]},
    },
)
def test_backward(x, view):
    return view(x)


WRITTEN = {
    "diagonal_scatter": lambda x, y: torch.diagonal_scatter(x, y[:, 0], 1),
    "select_scatter": lambda x, y: torch.select_scatter(x, y[:, 0], 1, -2),
    "slice_scatter": lambda x, y: torch.slice_scatter(x, y[:, :4], 1, 1, 9, 2),
    "as_strided_scatter": lambda x, y: torch.as_strided_scatter(x, y[:3, :2], (3, 2), (10, 3), 2),
}


@case(
    x=tensor(8, 9),
    y=tensor(8, 9),
    written=WRITTEN,
    grad=True,
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics=EXACT,
)
def test_written(x, y, written):
    return written(x, y)


@case(
    x=tensor(6, 10, 4, dtype="u8"), dynamic=True, require={"all": INDUCTOR_ONLY, "cpu": {"kernels": 1}}, numerics=EXACT
)
def test_dynamic(x):
    return x.permute(1, 2, 0).reshape(x.shape[1], -1).contiguous(), x.flip(1)[::2] + 1


@case(x=tensor(6, 4), checks=["numerics"])
def test_part_of_a_transposed_result(x):
    return (x.t() + 1)[1:]


test_references = references(test_order, test_flat, test_triangle, test_written)
test_references_of_gradients = references(test_backward)


@case(
    x=tensor(8, 9, layout="offset"),
    y=tensor(8, 9),
    written={name: WRITTEN[name] for name in ("diagonal_scatter", "select_scatter", "slice_scatter")},
    numerics=EXACT,
    checks=["numerics"],
)
def test_written_later_in_memory(x, y, written):
    return written(x, y)
