"""mm: the product of two matrices, and its backward: two transposes and two more products."""

from typing import Any

import torch
from expecttest import assert_expected_inline

from conformance import case, explanation, references, tensor

#: The inputs that require a gradient. Each input without one saves a product.
GRADS = {"forward": "", "backward": "a b", "backward_a": "a", "backward_b": "b"}

#: Only the library's product, as often as the mathematics needs it: a transpose only changes strides.
PRODUCTS: dict[str, dict[str, Any]] = {
    "all": {"kernels": 0, "fallbacks": [], "graph_breaks": 0},
    "forward": {"extern": ["mm"]},
    "backward": {"extern": ["mm", "mm", "mm"]},
    "backward_a": {"extern": ["mm", "mm"]},
    "backward_b": {"extern": ["mm", "mm"]},
}


LAYOUTS = ["contiguous", "transposed", "sliced"]


@case(
    a=tensor(64, 96, layout=LAYOUTS),
    b=tensor(96, 32, layout=LAYOUTS),
    dtype=["f32", "bf16"],
    grad=GRADS,
    dynamic=[False, True],
    vary="one_at_a_time",
    also=[
        {"dtype": "bf16", "grad": "backward"},
        {"a.layout": "transposed", "grad": "backward"},
        {"b.layout": "sliced", "grad": "backward"},
        {"dynamic": True, "grad": "backward"},
    ],
    require=PRODUCTS,
)
def test_mm(a, b):
    return torch.mm(a, b)


#: Each layout of both operands, with and without equal sizes: the backward transposes both.
@case(
    a=tensor(64, 96, layout=LAYOUTS),
    b=tensor(96, 32, layout=LAYOUTS),
    dtype=["f32", "bf16"],
    grad=True,
    require={"all": PRODUCTS["all"] | PRODUCTS["backward"]},
)
def test_layouts_backward(a, b):
    return torch.mm(a, b)


@case(
    a=tensor(64, 64, layout=LAYOUTS),
    b=tensor(64, 64, layout=LAYOUTS),
    grad=GRADS,
    require=PRODUCTS,
)
def test_square(a, b):
    return torch.mm(a, b)


@case(
    a=tensor(127, 65),
    b=tensor(65, 33),
    dtype=["f32", "bf16"],
    grad=[False, True],
    # On GPUs Inductor may pad to aligned sizes.
    require={"cpu": {"kernels": 0, "fallbacks": []}, "all": {"graph_breaks": 0}},
)
def test_odd_sizes(a, b):
    return torch.mm(a, b)


@case(
    a=tensor(40, 1),
    b=tensor(1, 56),
    dtype="f32",
    grad=[False, True],
    require={
        "gpu forward torch>=2.13": {"kernels": 1, "extern": []},  # a pointwise product: there is nothing to sum
        "cpu forward": {"kernels": 0, "extern": ["mm"]},
    },
)
def test_outer_product(a, b):
    return torch.mm(a, b)


def test_story_which_products_make_the_gradients():
    product = explanation(test_mm, "contiguous-contiguous-f32-backward-static", target="cpu_avx512")
    assert_expected_inline(
        product.graph,
        """\
class inner_f(torch.nn.Module):
    def forward(self, primals, tangents):
        primals_1: "f32[64, 96][96, 1]"; primals_2: "f32[96, 32][32, 1]"; tangents_1: "f32[64, 32][32, 1]";
        primals_1, primals_2, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        mm: "f32[64, 32][32, 1]" = torch.ops.aten.mm.default(primals_1, primals_2)
        permute: "f32[96, 64][1, 96]" = torch.ops.aten.permute.default(primals_1, [1, 0])
        mm_1: "f32[96, 32][32, 1]" = torch.ops.aten.mm.default(permute, tangents_1)
        permute_1: "f32[32, 96][1, 32]" = torch.ops.aten.permute.default(primals_2, [1, 0])
        mm_2: "f32[64, 96][96, 1]" = torch.ops.aten.mm.default(tangents_1, permute_1)
        return pytree.tree_unflatten([mm, mm_2, mm_1], self._out_spec)""",
    )


test_references = references(test_mm, test_odd_sizes, test_outer_product)
