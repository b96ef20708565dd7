"""pad_mm: products whose rows are not multiples of 16 bytes. On a GPU Inductor can pad their matrices with zeros.

Inductor times the product with and without zeros, and takes the faster one. These cases force it to pad, because code
is generated without the device.
"""

import torch

from conformance import case, tensor

ONLY = {"gpu": "on a CPU no product is padded"}
PADDED = {"padded": {"shape_padding": True, "force_shape_pad": True}}

#: Float32 is padded to multiples of 4, float16 and bfloat16 to multiples of 8. No size is a multiple of 4.
MATRICES = {"a": tensor(30, 45), "b": tensor(45, 29)}


def product(name, kernels):
    """`kernels`: one for each matrix that is padded, and one after the product."""
    return {"fallbacks": [], "graph_breaks": 0, "extern": [name], "kernels": kernels}


@case(
    **MATRICES,
    dtype=["f32", "f16"],
    config=PADDED,
    only=ONLY,
    require={"all": product("mm", 3) | {"patterns.pad_mm.mm_pattern": 1}},
)
def test_mm(a, b):
    return torch.relu(a @ b)


@case(
    a=tensor(3, 30, 45),
    b=tensor(3, 45, 29),
    dtype=["f32", "bf16"],
    config=PADDED,
    only=ONLY,
    require={"all": product("bmm", 3) | {"patterns.pad_mm.bmm_pattern": 1}},
)
def test_bmm(a, b):
    return torch.relu(torch.bmm(a, b))


# A bias that is repeated along a dimension is not padded there.
@case(
    bias=tensor(shape={"row": (29,), "matrix": (30, 29), "column": (30, 1)}),
    **MATRICES,
    config=PADDED,
    only=ONLY,
    require={
        "all": {"fallbacks": [], "graph_breaks": 0, "patterns.pad_mm.addmm_pattern": 1},
        "row": {"extern": ["mm"], "kernels": 3},  # the bias is added after the product
        "column": {"extern": ["mm"], "kernels": 3},
        "matrix torch<2.15": {"extern": ["mm"], "kernels": 3},
        "matrix torch>=2.15": {"extern": ["addmm"], "kernels": 4},
    },
)
def test_addmm(bias, a, b):
    return torch.relu(torch.addmm(bias, a, b))


# The result is not a view of the padded product: its strides are those of eager.
@case(
    **MATRICES,
    config=PADDED,
    only=ONLY,
    require={"all": {"fallbacks": [], "graph_breaks": 0, "extern": ["mm"], "patterns.pad_mm.mm_pattern": 1}},
)
def test_strides(a, b):
    return a @ b


# Sizes that are multiples, and a dtype that is never padded.
@case(
    a=tensor(28, 44),
    b=tensor(44, 28),
    config=PADDED,
    only=ONLY,
    require={"all": product("mm", 1) | {"patterns.pad_mm.mm_pattern": 0}},
)
def test_multiples(a, b):
    return torch.relu(a @ b)


@case(
    **MATRICES,
    dtype="f64",
    config=PADDED,
    only=ONLY,
    require={"all": product("mm", 1) | {"patterns.pad_mm.mm_pattern": 0}},
)
def test_float64(a, b):
    return torch.relu(a @ b)
