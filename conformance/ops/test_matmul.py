"""matmul: products other than mm: addmm, bmm, linear; with operators before and after them."""

import torch

from conformance import case, references, tensor

functional = torch.nn.functional

NO_FALLBACK = {"fallbacks": [], "graph_breaks": 0}


@case(
    bias=tensor(32),
    a=tensor(24, 48),
    b=tensor(48, 32),
    dtype=["f32", "bf16"],
    grad=[False, True],
    require={"all": NO_FALLBACK, "forward": {"kernels": 0, "extern": ["addmm"]}},
)
def test_addmm(bias, a, b):
    return torch.addmm(bias, a, b)


@case(
    a=tensor(4, 24, 48, layout=["contiguous", "transposed"]),
    b=tensor(4, 48, 32),
    dtype=["f32", "bf16"],
    grad=[False, True],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": NO_FALLBACK | {"kernels": 0}, "forward": {"extern": ["bmm"]}},
)
def test_bmm(a, b):
    return torch.bmm(a, b)


EPILOGUES = {
    "plain": lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "scaled": lambda x: x * 0.5 + 1,
    "row_sum": lambda x: x.sum(-1),
}


@case(
    x=tensor(24, 48),
    weight=tensor(32, 48),
    bias=tensor(32),
    epilogue=EPILOGUES,
    dtype=["f32", "bf16"],
    grad=[False, True],
    vary="one_at_a_time",
    # All operators after the library's product become one kernel.
    require={"all": NO_FALLBACK, "forward": {"kernels": "<=1"}},
)
def test_linear(x, weight, bias, epilogue):
    return epilogue(functional.linear(x, weight, bias))


@case(
    x=tensor(24, 48, dtype=["f32", "u8"]),
    w=tensor(48, 32),
    require={"all": NO_FALLBACK | {"kernels": 1, "extern": ["mm"]}},
)
def test_prologue(x, w):
    return (x.float() * 0.5) @ w


@case(
    a=tensor(24, 48),
    x=tensor(48),
    grad=[False, True],
    require={"all": NO_FALLBACK},
)
def test_matrix_vector(a, x):
    return a @ x


@case(x=tensor(48), y=tensor(48), require={"all": NO_FALLBACK})
def test_dot(x, y):
    return torch.dot(x, y)


@case(x=tensor(2, 3, 8, 16), y=tensor(16, 8), require={"all": NO_FALLBACK | {"kernels": 0}})
def test_matmul_of_four_dimensions(x, y):
    return x @ y


@case(
    x=tensor(8, 12),
    y=tensor(5, 12),
    z=tensor(5, 7),
    require={"all": NO_FALLBACK},
)
def test_einsum(x, y, z):
    return torch.einsum("ik,jk,jl->il", x, y, z)


@case(
    a=tensor(24, 48),
    b=tensor(48, 32),
    dtype=["i32", "i64"],
    require={"cpu": {"graph_breaks": 0}},
    numerics={"exact": True},
)
def test_integers(a, b):
    return (a[:, :, None] * b[None]).sum(1)


@case(
    x=tensor(24, 48),
    up=tensor(64, 48),
    gate=tensor(64, 48),
    down=tensor(48, 64),
    dtype=["f32", "bf16"],
    require={"all": NO_FALLBACK | {"kernels": 1}},
)
def test_gated_mlp(x, up, gate, down):
    hidden = functional.silu(functional.linear(x, gate)) * functional.linear(x, up)
    return functional.linear(hidden, down)


@case(
    a=tensor(12, 20, layout=["transposed", "strided", "expanded"]),
    b=tensor(20, 16),
    dtype=["f32", "f16", "f64"],
    vary="one_at_a_time",
    require={"all": NO_FALLBACK | {"extern": ["mm"]}},
)
def test_operands(a, b):
    return (a @ b).relu()


# Inductor generates kernels for products that are too small for a library.
SMALL = {
    "inner_size_1": lambda a, b: a[:, :1] @ b[:1],
    "row_by_column": lambda a, b: a[:1] @ b[:, :1],
    "inner_size_0": lambda a, b: a[:, :0] @ b[:0],
    "outer": lambda a, b: torch.outer(a[0], b[:, 0]),
    "batch_of_rows": lambda a, b: torch.bmm(a[:, None], b[None].expand(12, 20, 16)),
}


@case(
    a=tensor(12, 20),
    b=tensor(20, 16),
    small=SMALL,
    require={"all": NO_FALLBACK},
    numerics={"for": {"inner_size_0": {"fill": {"output": "the product of nothing is 0"}}}},
)
def test_small(a, b, small):
    return small(a, b)


SCALED = {
    "addmm": lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2),
    "baddbmm": lambda x, a, b: torch.baddbmm(x[None], a[None], b[None], beta=2, alpha=0.5),
    "residual": lambda x, a, b: x + torch.relu(a @ b),
}


@case(
    x=tensor(12, 16),
    a=tensor(12, 20),
    b=tensor(20, 16),
    scaled=SCALED,
    grad=True,
    require={"all": NO_FALLBACK},
)
def test_scaled(x, a, b, scaled):
    return scaled(x, a, b)


SUMS = {"scores": "bij,bkj->bik", "total": "bij,bij->", "trace": "bii,bij->bj"}


@case(
    x=tensor(2, 7, 7),
    y=tensor(2, 7, 7),
    equation=SUMS,
    require={"all": NO_FALLBACK},
)
def test_einsum_of_batches(x, y, equation):
    return torch.einsum(equation, x, y)


test_references = references(
    test_addmm,
    test_bmm,
    test_linear,
    test_matrix_vector,
    test_dot,
    test_einsum,
    test_operands,
    test_small,
    test_scaled,
    test_einsum_of_batches,
)
