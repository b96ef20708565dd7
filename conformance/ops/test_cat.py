"""cat: joining and splitting tensors: cat, stacks and splits, of every dtype and layout."""

import torch

from conformance import case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
EXACT = {"exact": True}

#: On cpu, Inductor leaves cat of 8-bit integers to eager.
BYTES = {"fallbacks": [], "judgement": "a kernel of any dtype copies bytes, so one can copy these too"}

LAYOUTS = ["contiguous", "transposed", "sliced", "strided", "expanded"]


@case(
    x=tensor(6, 17, layout=LAYOUTS),
    y=tensor(6, 17),
    dim={"columns": 1, "rows": 0},
    dtype=["f32", "f16"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_layouts(x, y, dim):
    return torch.cat([x, y], dim)


# Eager's result is channels-last if the first tensor is.
@case(
    x=tensor(2, 3, 5, 7, layout="channels_last"),
    y=tensor(2, 3, 5, 7, layout=["channels_last", "contiguous"]),
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_channels(x, y):
    return torch.cat([x, y], 1)


@case(
    x=tensor(5, 7, dtype=["i32", "u8", "bool", "bf16"]),
    y=tensor(5, 9, dtype=["f32", "i8", "f64"]),
    vary="one_at_a_time",
    also=[{"x.dtype": "u8", "y.dtype": "i8"}],
    require={"all": ONE_KERNEL, "cpu u8 i8": {"kernels": 0, "fallbacks": ["aten.cat"]}},
    missed={"cpu u8 i8": BYTES},
    numerics=EXACT,
)
def test_mixed_dtypes(x, y):
    return torch.cat([x, y], -1)


JOINED = {
    "dstack": lambda x, y: torch.dstack([x, y]),
    "column_stack": lambda x, y: torch.column_stack([x, y, x]),
    "stack_first": lambda x, y: torch.stack([x, y], 0),
    "block_diag": torch.block_diag,
    "empty_among": lambda x, y: torch.cat([x, x.new_empty(0), y], 0),
    "twelve": lambda x, y: torch.cat([x, y] * 6, 1),
    "its_own_parts": lambda x, _: torch.cat([x[:, :5], x[:, 5:]], 1),
}


@case(
    x=tensor(5, 12),
    y=tensor(5, 12),
    dtype=["f64", "i64"],
    joined=JOINED,
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT,
)
def test_joined(x, y, joined):
    return joined(x, y)


SPLIT = {
    "chunk": lambda x: [part + 1 for part in x.chunk(4, 1)],
    "unbind": lambda x: [part + 1 for part in x.unbind(0)],
    "hsplit": lambda x: [part + 1 for part in x.hsplit(3)],
    "interleaved": lambda x: torch.stack(x.split(9, 1), -1).flatten(1),
    "changed_between": lambda x: torch.cat([-x[:, :4], x[:, 4:11], x[:, 11:] + 1], 1),
}


@case(
    x=tensor(4, 18, dtype=["i8", "i16"]),
    apart=SPLIT,
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY}
    | {f"cpu i8 {joined}": {"fallbacks": ["aten.cat"]} for joined in ("interleaved", "changed_between")},
    missed={f"cpu i8 {joined}": BYTES for joined in ("interleaved", "changed_between")},
    numerics=EXACT,
)
def test_apart(x, apart):
    return apart(x)


@case(
    x=tensor(5, 7),
    y=tensor(5, 12),
    dtype=["f32", "bf16"],
    dynamic=[False, True],
    grad=True,
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_backward(x, y):
    return torch.cat([x * y[:, :7], y.tanh(), x], 1)


@case(x=tensor(6, 16), grad=True, require={"all": INDUCTOR_ONLY})
def test_split_backward(x):
    first, second, third = x.split([3, 8, 5], 1)
    return first.sin(), second * 2, third.sum(1)


# Rotary position embedding, as for queries and keys of attention: rotates the halves of the last dimension.
@case(
    x=tensor(2, 4, 9, 16),
    cos=tensor(9, 16),
    sin=tensor(9, 16),
    dtype=["f32", "bf16"],
    require={"all": ONE_KERNEL},
)
def test_rotary(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


test_references = references(
    test_layouts, test_channels, test_mixed_dtypes, test_joined, test_apart, test_backward, test_split_backward
)


# Negated bytes wrap around before they are summed in 64 bits.
@case(x=tensor(3, dtype="u8"), require={"all": {"graph_breaks": 0}})
def test_sum_of_joined_bytes(x):
    y = -x.abs()
    return torch.cat([y, y]).sum()


# A result of cat may share memory with what it joins only while nobody writes to either.
@case(x=tensor(5), y=tensor(3), value=tensor(1), checks=["numerics"])
def test_copy_written_after_cat(x, y, value):
    part = x.sin()
    joined = torch.cat([y, part])
    copy = part.clone()
    copy.index_put_((torch.tensor([0], device=x.device),), value, accumulate=True)
    return joined, copy


@torch.library.custom_op("conformance_cat::add_one", mutates_args=("x",))
def add_one(x: torch.Tensor) -> None:
    x.add_(1)


@case(x=tensor(3, 4), checks=["numerics"])
def test_stack_written_by_an_operator(x):
    part = x * 2
    stacked = torch.stack([part.detach(), part.detach()])
    add_one(stacked[0])
    return stacked.sum(0) + part


@case(x=tensor(5, 7, layout="transposed"), checks=["numerics"])
def test_of_one(x):
    return torch.cat([x])
