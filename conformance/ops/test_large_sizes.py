"""large_sizes: kernels that Inductor chooses from some size on. Code is generated for sizes that no machine holds."""

import torch

from conformance import case, tensor

#: On a CPU, threads share loops of any length, as they share long ones.
PARALLEL = {"cpp.min_chunk_size": 1}
FEW = {"without": {"inf": "the order of a sum decides where infinity appears in it"}}


@case(
    x=tensor(2**31 + 8),
    compared_as={"x": (1032,), "config": PARALLEL},
    require={"all": {"kernels": 1}},
)
def test_more_than_32_bits(x):
    """The number of an element needs 64 bits: on a GPU, indices are tl.int64."""
    return x * 2 + 1


@case(
    x=tensor(2**22, 2**10),
    rows=tensor(7, dtype="i64", low=0, high=20),
    compared_as={"x": (20, 2**10), "config": PARALLEL},
    require={"all": {"kernels": 1}},
)
def test_rows_of_a_table(x, rows):
    return x[rows] * 2


@case(
    x=tensor(8, 2**26),
    compared_as={"x": (8, 2**15), "config": PARALLEL},
    numerics=FEW,
    require={"gpu": {"kinds": ["reduction", "persistent reduction"]}},
)
def test_long_rows(x):
    """A GPU sums parts of a long row in many blocks, and then the parts."""
    return x.sum(1)


@case(
    x=tensor(2**26, 8),
    compared_as={"x": (2**15, 8), "config": PARALLEL},
    numerics=FEW,
    require={"gpu": {"kinds": ["reduction", "reduction"]}},
)
def test_long_columns(x):
    return x.sum(0)


@case(
    x=tensor(4, 2**26),
    config={"triton.cooperative_reductions": True},
    compared_as={
        "x": (4, 2**13),
        "config": {"triton.force_cooperative_reductions": True, "triton.persistent_reductions": False} | PARALLEL,
    },
    numerics=FEW,
)
def test_cooperative(x):
    """Blocks share one sum, from 32,768 elements for each result on: an option gives it to fewer."""
    return x.softmax(1)


@case(
    x=tensor(2**17, 2**8),
    weight=tensor(2**8),
    grad=True,
    compared_as={
        "x": (2**9, 2**8),
        "config": {"triton.mix_order_reduction_non_strict_mode": True} | PARALLEL,
    },
    numerics=FEW,
)
def test_reduced_both_ways(x, weight):
    """One kernel reduces rows and columns, from 5,242,880 elements on: an option gives it to fewer."""
    return torch.nn.functional.rms_norm(x, (2**8,), weight)
