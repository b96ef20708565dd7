"""linalg: factorisations, solutions and inverses, which stay library calls between the kernels around them."""

import torch

from conformance import case, references, tensor

GRAPH = {"graph_breaks": 0}
SINGULAR = {"without": {"ties": "a matrix of equal values has no inverse", "huge": "its products overflow"}}
GIVEN_UP = "of what is not finite, the library finds something, gives up, or (matrix_exp on cuda) never ends"
NOT_FINITE = {"without": SINGULAR["without"] | {"nan": GIVEN_UP, "inf": GIVEN_UP}}


def positive(a):
    """A matrix that has every factorisation: symmetric, and far from singular."""
    return a @ a.mT + a.shape[-1] * torch.eye(a.shape[-1], device=a.device, dtype=a.dtype)


# A kernel before the library's call, and one after it.
@case(
    a=tensor(2, 6, 6),
    function={
        "cholesky": lambda a: torch.linalg.cholesky(positive(a)) * 2,
        "inv": lambda a: torch.linalg.inv(positive(a)) * 2,
        "det": lambda a: torch.linalg.det(positive(a).div(6)) + 1,
        "slogdet": lambda a: torch.linalg.slogdet(positive(a)).logabsdet + 1,
        "eigvalsh": lambda a: torch.linalg.eigvalsh(positive(a)) * 2,
        "svdvals": lambda a: torch.linalg.svdvals(a + 1) * 2,
        "qr": lambda a: torch.linalg.qr(positive(a)).R.abs(),
        "matrix_exp": lambda a: torch.linalg.matrix_exp(a / 6) + 1,
    },
    dtype=["f32", "f64"],
    vary="one_at_a_time",
    require={"all": GRAPH},
    numerics=SINGULAR | {"for": {"svdvals": NOT_FINITE, "cuda matrix_exp": NOT_FINITE}},
)
def test_factorised(a, function):
    return function(a)


@case(
    a=tensor(5, 5),
    b=tensor(5, 3),
    function={
        "solve": lambda a, b: torch.linalg.solve(positive(a), b.sin()) + 1,
        "triangular": lambda a, b: torch.linalg.solve_triangular(positive(a).triu(), b, upper=True) + 1,
        "cholesky_solve": lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(positive(a))) + 1,
        "multi_dot": lambda a, b: torch.linalg.multi_dot([a, a, b]) + 1,
    },
    require={"all": GRAPH},
    numerics=SINGULAR | {"for": {"cuda solve": NOT_FINITE}},
)
def test_solved(a, b, function):
    return function(a, b)


@case(
    a=tensor(5, 5),
    function={
        "cholesky": lambda a: torch.linalg.cholesky(positive(a)),
        "inv": lambda a: torch.linalg.inv(positive(a)),
        "solve": lambda a: torch.linalg.solve(positive(a), a),
        "slogdet": lambda a: torch.linalg.slogdet(positive(a)).logabsdet,
    },
    grad=True,
    require={"all": GRAPH},
    numerics=SINGULAR | {"for": {"cuda inv": NOT_FINITE, "cuda solve": NOT_FINITE}},
)
def test_gradient(a, function):
    return function(a)


# What the library is given is transposed, and what it gives is laid out by columns.
@case(a=tensor(3, 5, 5, layout=["transposed", "sliced"]), require={"all": GRAPH}, numerics=SINGULAR)
def test_layouts(a):
    return torch.linalg.inv(positive(a)), torch.linalg.cholesky(positive(a)).mT


# How an outer product, a distance and a product of many factors become kernels.
@case(
    x=tensor(7, 12),
    y=tensor(9, 12),
    function={
        "outer": lambda x, y: torch.outer(x[0], y[0]) + 1,
        "cross": lambda x, y: torch.linalg.cross(x[:, :3], y[:7, :3]),
        "vecdot": lambda x, y: torch.linalg.vecdot(x, y[:7]),
        "vander": lambda x, _: torch.linalg.vander(x[0] / 2, N=4),
        "cdist": lambda x, y: torch.cdist(x, y) + 1,
        "cdist_l1": lambda x, y: torch.cdist(x, y, p=1) + 1,
        "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y).relu(),
        "einsum_diagonal": lambda x, y: torch.einsum("ii,ij->j", x[:, :7], y[:7]),
        "kron": lambda x, y: torch.kron(x[:2, :3], y[:3, :2]),
        "tensordot": lambda x, y: torch.tensordot(x, y, dims=([1], [1])) * 2,
    },
    require={"all": GRAPH},
    numerics={"without": {"huge": "products and their sums overflow earlier or later, by their order"}},
)
def test_products(x, y, function):
    return function(x, y)


test_references = references(test_products)
