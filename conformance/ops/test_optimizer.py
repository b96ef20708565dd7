"""optimizer: one step of an optimizer over several parameters, as one kernel or a few."""

import torch

from conformance import case, references, tensor

PARAMETERS = {name: tensor(*shape) for name, shape in {"a": (16, 33), "b": (33,), "c": (7, 5)}.items()}
GRADIENTS = {f"grad_{name}": tensor(*shape) for name, shape in {"a": (16, 33), "b": (33,), "c": (7, 5)}.items()}
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}


@case(
    **PARAMETERS,
    **GRADIENTS,
    dtype=["f32", "bf16"],
    require={"all": INDUCTOR_ONLY, "gpu": {"kernels": 1}},
)
def test_sgd(a, b, c, grad_a, grad_b, grad_c):
    torch._foreach_add_([a, b, c], [grad_a, grad_b, grad_c], alpha=-0.1)


@case(
    **PARAMETERS,
    **GRADIENTS,
    **{f"momentum_{name}": tensor(*shape) for name, shape in {"a": (16, 33), "b": (33,), "c": (7, 5)}.items()},
    require={"all": INDUCTOR_ONLY, "gpu": {"kernels": 1}},
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
    require={"all": INDUCTOR_ONLY | {"kernels": 1}, "cpu": {"vectorised": "yes"}},
    numerics={"without": {"huge": "mean / square overflows, unless it is multiplied by the rate first, as in eager"}},
)
def test_adam(x, grad_x, mean, square, weight_decay):
    x.mul_(1 - 0.1 * weight_decay)
    mean.lerp_(grad_x, 0.1)
    square.mul_(0.99).addcmul_(grad_x, grad_x, value=0.01)
    x.addcdiv_(mean, square.sqrt() + 1e-8, value=-0.1)


STATE = {
    "x": tensor(16, 33),
    "grad_x": tensor(16, 33),
    "buffer": tensor(16, 33),
    "square": tensor(16, 33, low=0, high=1),
}
QUOTIENT = {"without": {"huge": "whether a quotient overflows depends on what it is multiplied by first"}}
SQUARE = {"without": {"full_range": "whether a square overflows depends on what it is multiplied by first"}}


def nesterov(x, grad_x, buffer, square):
    grad_x = grad_x.add(x, alpha=0.01)
    buffer.mul_(0.9).add_(grad_x)
    x.add_(grad_x.add(buffer, alpha=0.9), alpha=-0.1)


def rmsprop(x, grad_x, buffer, square):
    square.mul_(0.99).addcmul_(grad_x, grad_x, value=0.01)
    buffer.mul_(0.9).addcdiv_(grad_x, square.sqrt().add_(1e-8))
    x.add_(buffer, alpha=-0.01)


def adagrad(x, grad_x, buffer, square):
    square.addcmul_(grad_x, grad_x, value=1)
    x.addcdiv_(grad_x, square.sqrt().add_(1e-10), value=-0.1)


def adamax(x, grad_x, buffer, square):
    buffer.lerp_(grad_x, 0.1)
    torch.maximum(square.mul_(0.999), grad_x.abs().add_(1e-8), out=square)
    x.addcdiv_(buffer, square, value=-0.02)


def lion(x, grad_x, buffer, square):
    x.add_(torch.sign(buffer.lerp(grad_x, 0.1)), alpha=-0.01)
    buffer.lerp_(grad_x, 0.01)


@case(
    **STATE,
    step={"nesterov": nesterov, "rmsprop": rmsprop, "adagrad": adagrad, "adamax": adamax, "lion": lion},
    require={"all": INDUCTOR_ONLY | {"kernels": 1}, "cpu": {"vectorised": "yes"}},
    numerics={"for": {"adamax": QUOTIENT, "rmsprop": SQUARE}},
)
def test_step(x, grad_x, buffer, square, step):
    step(x, grad_x, buffer, square)


# The norm of all gradients decides the scale of each gradient.
@case(**GRADIENTS, require={"all": INDUCTOR_ONLY})
def test_clipping(grad_a, grad_b, grad_c):
    gradients = [grad_a, grad_b, grad_c]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in gradients]))
    torch._foreach_mul_(gradients, (1.0 / (norm + 1e-6)).clamp(max=1.0))


# The parameters have 16 bits, their moments 32.
@case(
    x=tensor(16, 33, dtype="bf16"),
    grad_x=tensor(16, 33, dtype="bf16"),
    mean=tensor(16, 33),
    square=tensor(16, 33, low=0, high=1),
    require={"all": INDUCTOR_ONLY | {"kernels": 1}, "cpu": {"vectorised": "yes"}},
    numerics=SQUARE,
)
def test_adam_of_two_precisions(x, grad_x, mean, square):
    wide = grad_x.float()
    mean.lerp_(wide, 0.1)
    square.mul_(0.99).addcmul_(wide, wide, value=0.01)
    x.copy_(x.float() - 0.1 * mean / (square.sqrt() + 1e-8))


test_references = references(test_sgd, test_momentum, test_adam, test_step, test_clipping, test_adam_of_two_precisions)
