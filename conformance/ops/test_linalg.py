"""linalg: factorisations, solutions and inverses, which stay library calls between generated kernels."""

import torch

from conformance import case, references, tensor

NO_GRAPH_BREAKS = {"graph_breaks": 0}
GIVEN_UP = {"without": {"inf": "if values are not finite, the library returns anything, or raises"}}
#: A run with --audit must not try it. Powers of the largest numbers are infinite.
ENDLESS = {"without": dict.fromkeys(("nan", "inf", "huge"), "on a device, the library never ends")}


def positive_definite(a):
    """A symmetric positive definite matrix, far from singular, so that it has every factorisation."""
    return a @ a.mT + a.shape[-1] * torch.eye(a.shape[-1], device=a.device, dtype=a.dtype)


# There is a kernel before the library call, and one after it.
@case(
    a=tensor(2, 6, 6),
    function={
        "cholesky": lambda a: torch.linalg.cholesky(positive_definite(a)) * 2,
        "inv": lambda a: torch.linalg.inv(positive_definite(a)) * 2,
        "det": lambda a: torch.linalg.det(positive_definite(a).div(6)) + 1,
        "slogdet": lambda a: torch.linalg.slogdet(positive_definite(a)).logabsdet + 1,
        "eigvalsh": lambda a: torch.linalg.eigvalsh(positive_definite(a)) * 2,
        "svdvals": lambda a: torch.linalg.svdvals(a + 1) * 2,
        "qr": lambda a: torch.linalg.qr(positive_definite(a)).R.abs(),
        "matrix_exp": lambda a: torch.linalg.matrix_exp(a / 6) + 1,
    },
    dtype=["f32", "f64"],
    vary="one_at_a_time",
    require={"all": NO_GRAPH_BREAKS},
    numerics={"for": {"svdvals": GIVEN_UP, "cuda matrix_exp": ENDLESS}},
)
def test_factorised(a, function):
    return function(a)


@case(
    a=tensor(5, 5),
    b=tensor(5, 3),
    function={
        "solve": lambda a, b: torch.linalg.solve(positive_definite(a), b.sin()) + 1,
        "triangular": lambda a, b: torch.linalg.solve_triangular(positive_definite(a).triu(), b, upper=True) + 1,
        "cholesky_solve": lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(positive_definite(a))) + 1,
        "multi_dot": lambda a, b: torch.linalg.multi_dot([a, a, b]) + 1,
    },
    require={"all": NO_GRAPH_BREAKS},
)
def test_solved(a, b, function):
    return function(a, b)


@case(
    a=tensor(5, 5),
    function={
        "cholesky": lambda a: torch.linalg.cholesky(positive_definite(a)),
        "inv": lambda a: torch.linalg.inv(positive_definite(a)),
        "solve": lambda a: torch.linalg.solve(positive_definite(a), a),
        "slogdet": lambda a: torch.linalg.slogdet(positive_definite(a)).logabsdet,
    },
    grad=True,
    require={"all": NO_GRAPH_BREAKS},
)
def test_gradient(a, function):
    return function(a)


# The library reads transposed inputs, and stores its results by columns.
@case(a=tensor(3, 5, 5, layout=["transposed", "sliced"]), require={"all": NO_GRAPH_BREAKS})
def test_layouts(a):
    return torch.linalg.inv(positive_definite(a)), torch.linalg.cholesky(positive_definite(a)).mT


# Outer products, distances and products of many factors.
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
    require={"all": NO_GRAPH_BREAKS},
)
def test_products(x, y, function):
    return function(x, y)


test_references = references(test_products)
