"""block_access: Triton kernels that address whole blocks, by block pointers or descriptors; dimensions of blocks.

Options of Inductor ask for them. Without these options, a kernel computes one pointer for each element.
"""

from conformance import case, references, tensor

ONLY = {"gpu": "these are forms of Triton kernels"}
ONE_KERNEL = {"kernels": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}

BLOCK_POINTERS = {"triton.use_block_ptr": True}
#: A descriptor needs a base address that is a multiple of 16.
DESCRIPTORS = {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True}
#: One dimension of the block for each dimension of the tensor.
MORE_DIMENSIONS = {"triton.prefer_nd_tiling": True, "triton.max_tiles": 3}
LOOPED = {"triton.persistent_reductions": False}
TILED_REDUCTION = MORE_DIMENSIONS | {"triton.tile_reductions": True}

FORMS = {
    "pointers": BLOCK_POINTERS,
    "nd_pointers": BLOCK_POINTERS | MORE_DIMENSIONS,
    "descriptors": DESCRIPTORS,
    "nd_descriptors": DESCRIPTORS | MORE_DIMENSIONS,
}


FOUR_AT_A_TIME = {
    "factor": 12,
    "reason": "measured 38.7 ulp on an H100, with `ties`: R0_BLOCK is 4, so 512 blocks of equal values are added",
}


def blocks(count, forms):
    """What is required of a kernel that addresses `count` arguments by block in each of the forms."""
    wanted = {"all": ONE_KERNEL}
    for form in forms:
        if "descriptors" in form:
            wanted |= {form: {"tma": count}, f"cuda_sm80 {form}": {"tma": 0}}  # sm_80 has no unit for them
        else:
            wanted |= {f"{form} torch<2.15": {"block_pointers": count}}  # the Triton of torch 2.15 has none
    return wanted


@case(
    x=tensor(6, 16, 64, layout=["contiguous", "transposed", "sliced"]),
    y=tensor(6, 16, 64),
    config=FORMS,
    vary="one_at_a_time",
    also=[{"x.layout": "transposed", "config": name} for name in ("nd_pointers", "nd_descriptors")],
    only=ONLY,
    require=blocks(3, FORMS),
)
def test_pointwise(x, y):
    return x * y + 1


# No dimension is a power of two, so that the last block reaches over the border. With one dimension of blocks, the row
# that repeats is no block. Rows of 520 bytes cannot have a descriptor: its strides are multiples of 16.
@case(
    x=tensor(7, 130),
    y=tensor(1, 130),
    config={name: FORMS[name] for name in ("pointers", "nd_pointers", "nd_descriptors")},
    only=ONLY,
    require=blocks(2, ["pointers"]) | blocks(3, ["nd_pointers"]) | blocks(1, ["nd_descriptors"]),
)
def test_border(x, y):
    return x + y


@case(
    x=tensor(8, 1, 64),
    y=tensor(16, 1),
    config={name: FORMS[name] for name in ("pointers", "nd_pointers")},
    only=ONLY,
    require=blocks(3, ("pointers", "nd_pointers")),
)
def test_broadcast(x, y):
    return x + y


@case(
    x=tensor(16, 64),
    y=tensor(1, 64),
    config={"nd_pointers": FORMS["nd_pointers"]},
    dynamic=True,
    only=ONLY,
    require=blocks(3, ["nd_pointers"]),
)
def test_any_size(x, y):
    return x + y


# A descriptor needs 16 bytes or more in a row, at an address that is a multiple of 16, and a dtype that it knows. Where
# the input has none of its own, the result has one, and the other way around for booleans.
@case(
    x=tensor(16, 64),
    form={
        "aligned": lambda x: x[:, 4:36] * 2,
        "unaligned": lambda x: x[:, 1:33] * 2,
        "every_second": lambda x: x[:, ::2] * 2,
        "pairs": lambda x: x.view(16, 32, 2)[:, ::2] * 2,
        "row_sums": lambda x: x.sum(1),
        "few_summed": lambda x: x[:, ::32].clone().sum(1),
        "doubles": lambda x: x.double() * 2,
        "booleans": lambda x: x > 0,
    },
    config={"nd_descriptors": FORMS["nd_descriptors"]},
    only=dict.fromkeys(("cuda_sm90", "xpu_pvc"), "the rules are the same for each GPU that has descriptors"),
    require={
        "all": ONE_KERNEL,
        **{form: {"tma": 2} for form in ("aligned", "row_sums", "doubles")},
        **{form: {"tma": 1} for form in ("unaligned", "every_second", "pairs", "few_summed", "booleans torch>=2.13")},
    },
)
def test_alignment(x, form):
    return form(x)


# Two loops go along the row, and move the block. Each loads it, and the second one stores it.
@case(
    x=tensor(4, 2048, dtype=["f32", "bf16"]),
    config={"pointers": BLOCK_POINTERS | LOOPED, "descriptors": DESCRIPTORS | LOOPED},
    only=ONLY,
    require=blocks(4, ("pointers", "descriptors")),
    numerics={"for": {"cuda_sm90 f32 descriptors torch<2.13": FOUR_AT_A_TIME}},
)
def test_long_rows(x):
    return (x * 2).softmax(-1)


# The dimensions of the sliced input cannot become one, so that the block of the sum has several: two, or three from
# torch 2.15 on.
@case(
    x=tensor(8, 16, 64, layout="sliced"),
    config={"elements": TILED_REDUCTION, "pointers": TILED_REDUCTION | BLOCK_POINTERS},
    only=ONLY,
    require=blocks(1, ["pointers"])
    | {
        "elements torch<2.13": {"tiling": ["x r0_ r1_"]},
        "elements torch>=2.13,<2.15": {"tiling": ["r0_ r1_"]},
        "elements torch>=2.15": {"tiling": ["r0_ r1_ r2_"]},
    },
)
def test_tiled_sum(x):
    return (x * 2).sum()


# One input has its columns where the other has its rows.
@case(
    x=tensor(5, 7, 9),
    y=tensor(9, 5, 7),
    config={"flat": {"triton.max_tiles": 1}, "tiled": {}, "dense": {"triton.dense_indexing": True}},
    only=ONLY,
    require={"all": ONE_KERNEL | {"tiling": ["y x"]}, "flat": {"tiling": ["x"]}},
)
def test_permuted(x, y):
    return x + y.permute(1, 2, 0)


test_references = references(test_pointwise, test_broadcast, test_long_rows)
