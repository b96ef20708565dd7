"""func: gradients, Jacobians and batches of a function, taken inside the compiled function (torch.func)."""

# ruff: noqa: PLW0108 - without the lambdas, they would be taken outside the compiled function

import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from conformance import case, tensor

ONE_GRAPH = {"graph_breaks": 0, "fallbacks": []}


def energy(x):
    return (x.sin() * x.exp()).sum()


def norm(x):
    return x / (x.square().sum() + 1)


@case(
    x=tensor(7, 12),
    transform={
        "grad": lambda x: grad(energy)(x),
        "grad_of_grad": lambda x: grad(lambda x: grad(energy)(x).square().sum())(x),
        "per_row": lambda x: vmap(grad(energy))(x),
        "vmap": lambda x: vmap(norm)(x),
        "vmap_columns": lambda x: vmap(norm, in_dims=1, out_dims=1)(x),
        "vjp": lambda x: vjp(torch.tanh, x)[1](x)[0],
        "jvp": lambda x: jvp(torch.tanh, (x,), (x,)),
        "jacrev": lambda x: jacrev(norm)(x[0]),
        "jacfwd": lambda x: jacfwd(norm)(x[0]),
        "hessian": lambda x: hessian(energy)(x[0, :5]),
    },
    require={"all": ONE_GRAPH},
)
def test_transforms(x, transform):
    return transform(x)


# A gradient for each example of a batch, dot products of all pairs of rows, and a condition for each row.
@case(
    w=tensor(5, 12),
    x=tensor(7, 12),
    batch={
        "gradients": lambda w, x: vmap(grad(lambda w, x: (w @ x).tanh().sum()), in_dims=(None, 0))(w, x),
        "pairs": lambda w, x: vmap(vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))(w, x),
        "where": lambda _, x: vmap(lambda x: torch.where(x.sum() > 0, x, -x))(x),
    },
    require={"all": ONE_GRAPH},
)
def test_batches(w, x, batch):
    return batch(w, x)


@case(x=tensor(5, 7), checks=("numerics",))
def test_gradient_of_chosen_columns(x):
    index = torch.tensor([0, 2], device=x.device)

    def row(x):
        columns = torch.stack([x[..., k] for k in range(x.shape[-1])], dim=-1)
        return torch.index_select(columns, -1, index).sum(-1).reshape(())

    return torch.func.vmap(torch.func.grad_and_value(row))(x)


@case(
    x=tensor(3, 3),
    only={"cpu": "on a GPU, which of the wrong numbers stays depends on the order of threads"},
    checks=("numerics",),
)
def test_hessian_of_a_trace(x):
    return hessian(lambda x: torch.trace(x).pow(3))(x)
