"""optimizer: a step of an optimizer over several parameters, as one kernel or few."""

import torch

from conformance import case, tensor

PARAMETERS = {name: tensor(*shape) for name, shape in {"a": (16, 33), "b": (33,), "c": (7, 5)}.items()}
GRADIENTS = {f"grad_{name}": tensor(*shape) for name, shape in {"a": (16, 33), "b": (33,), "c": (7, 5)}.items()}
ALONE = {"fallbacks": [], "extern": [], "graph_breaks": 0}


@case(
    **PARAMETERS,
    **GRADIENTS,
    dtype=["f32", "bf16"],
    require={"all": ALONE, "gpu": {"kernels": 1}},
)
def test_sgd(a, b, c, grad_a, grad_b, grad_c):
    torch._foreach_add_([a, b, c], [grad_a, grad_b, grad_c], alpha=-0.1)


@case(
    **PARAMETERS,
    **GRADIENTS,
    **{f"momentum_{name}": tensor(*shape) for name, shape in {"a": (16, 33), "b": (33,), "c": (7, 5)}.items()},
    require={"all": ALONE, "gpu": {"kernels": 1}},
)
def test_momentum(a, b, c, grad_a, grad_b, grad_c, momentum_a, momentum_b, momentum_c):
    momenta, gradients = [momentum_a, momentum_b, momentum_c], [grad_a, grad_b, grad_c]
    torch._foreach_mul_(momenta, 0.9)
    torch._foreach_add_(momenta, gradients)
    torch._foreach_add_([a, b, c], momenta, alpha=-0.1)


@case(
    x=tensor(16, 33),
    grad_x=tensor(16, 33),
    mean=tensor(16, 33),
    square=tensor(16, 33, low=0, high=1),
    weight_decay={"adam": 0.0, "adamw": 0.01},
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    require={"all": ALONE | {"kernels": 1}, "cpu": {"vectorised": "yes"}},
    numerics={"without": {"huge": "mean / square overflows, unless it is multiplied by the rate first, as eager does"}},
)
def test_adam(x, grad_x, mean, square, weight_decay):
    x.mul_(1 - 0.1 * weight_decay)
    mean.lerp_(grad_x, 0.1)
    square.mul_(0.99).addcmul_(grad_x, grad_x, value=0.01)
    x.addcdiv_(mean, square.sqrt() + 1e-8, value=-0.1)
