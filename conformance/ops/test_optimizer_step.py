"""optimizer_step: steps of torch.optim, by their functions: parameters, gradients and state are arguments.

An optimizer that is made in the function would be another one in each call, so Dynamo would compile each call again.
"""

import torch
from torch.optim.adadelta import adadelta
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from conformance import case, tensor

#: A matrix, a bias, and a parameter of one element.
SHAPES = [(16, 33), (33,), (1,)]

PARAMETERS = {f"p{i}": tensor(*shape) for i, shape in enumerate(SHAPES)}
GRADIENTS = {f"g{i}": tensor(*shape) for i, shape in enumerate(SHAPES)}
MEANS = {f"mean{i}": tensor(*shape) for i, shape in enumerate(SHAPES)}
SQUARES = {f"square{i}": tensor(*shape, low=0.0625, high=1) for i, shape in enumerate(SHAPES)}
MAXIMA = {f"max{i}": tensor(*shape, low=0.0625, high=1) for i, shape in enumerate(SHAPES)}
#: Numbers of steps: one element each, on the device of the parameter, as `capturable=True` wants.
STEPS = {f"step{i}": tensor(shape=(), dtype="f32", low=4, high=9) for i in range(len(SHAPES))}
#: Small, so that 1 - beta2 ** step is far from 0. On the CPU, eager computes it with Python's numbers of 64 bits, and
#: compiled in float32.
BETAS = {"beta1": 0.5, "beta2": 0.75}

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
#: One kernel for all parameters.
ONE_KERNEL = {"all": INDUCTOR_ONLY, "gpu foreach": {"kernels": 1}}
#: The numbers of steps, one element for each parameter, have a kernel of their own.
STEPS_AND_PARAMETERS = {"all": INDUCTOR_ONLY, "gpu default": {"kernels": 2}}
SQUARE = {"without": {"full_range": "whether a square overflows depends on what it is multiplied by first"}}
#: How torch.optim loops: with an operator for each parameter, or with operators for lists of them.
LOOPS = {"loop": {"foreach": False}, "foreach": {"foreach": True}}
#: What it does by default: lists on GPUs. On the CPU, its steps with lists cannot be traced.
DEFAULT = {"loop": {"foreach": False}, "default": {}}


def capturable(parameter):
    """Where a step must not wait for the number of steps: on GPUs."""
    return parameter.device.type != "cpu"


@case(
    **PARAMETERS,
    **GRADIENTS,
    **MEANS,
    dtype=["f32", "bf16"],
    loop=LOOPS,
    vary="one_at_a_time",
    require=ONE_KERNEL,
    numerics={"for": {"cpu f32": {"without": {"exponents": "a step of nearly the parameter's size cancels"}}}},
)
def test_sgd(p0, p1, p2, g0, g1, g2, mean0, mean1, mean2, loop):
    sgd(
        [p0, p1, p2],
        [g0, g1, g2],
        [mean0, mean1, mean2],
        lr=0.1,
        momentum=0.9,
        weight_decay=0.01,
        dampening=0.0,
        nesterov=True,
        maximize=False,
        **loop,
    )


@case(
    **PARAMETERS,
    **GRADIENTS,
    **MEANS,
    **SQUARES,
    **MAXIMA,
    **STEPS,
    loop=DEFAULT,
    amsgrad={"plain": False, "amsgrad": True},
    vary="one_at_a_time",
    require=STEPS_AND_PARAMETERS,
    numerics=SQUARE,
)
def test_adam(
    p0, p1, p2, g0, g1, g2, mean0, mean1, mean2, square0, square1, square2, max0, max1, max2, step0, step1, step2,
    loop, amsgrad,
):  # fmt: skip
    adam(
        [p0, p1, p2],
        [g0, g1, g2],
        [mean0, mean1, mean2],
        [square0, square1, square2],
        [max0, max1, max2] if amsgrad else [],
        [step0, step1, step2],
        capturable=capturable(p0),
        amsgrad=amsgrad,
        **BETAS,
        lr=0.1,
        weight_decay=0.01,
        eps=1e-8,
        maximize=False,
        **loop,
    )


# The learning rate is a tensor, so that a scheduler can change it without a new compile.
@case(
    **PARAMETERS,
    **GRADIENTS,
    **MEANS,
    **SQUARES,
    **STEPS,
    lr=tensor(shape=(), low=0.01, high=0.1),
    only={"gpu": "torch.optim takes a learning rate in a tensor only where it is capturable, on GPUs"},
    require={"all": INDUCTOR_ONLY | {"kernels": 2}},
    numerics=SQUARE,
)
def test_learning_rate_in_a_tensor(
    p0, p1, p2, g0, g1, g2, mean0, mean1, mean2, square0, square1, square2, step0, step1, step2, lr
):
    adam(
        [p0, p1, p2],
        [g0, g1, g2],
        [mean0, mean1, mean2],
        [square0, square1, square2],
        [],
        [step0, step1, step2],
        foreach=True,
        capturable=True,
        amsgrad=False,
        **BETAS,
        lr=lr,
        weight_decay=0.0,
        eps=1e-8,
        maximize=False,
    )


# The other optimizers, each with its two tensors of state and its options.
OTHERS = {
    "rmsprop": lambda p, g, first, second, steps: rmsprop(
        p, g, second, [], first, steps, lr=0.1, alpha=0.9, eps=1e-8, weight_decay=0.01, momentum=0.5,
        centered=False, capturable=capturable(p[0]),
    ),
    "adagrad": lambda p, g, _, second, steps: adagrad(
        p, g, second, steps, lr=0.1, weight_decay=0.01, lr_decay=0.01, eps=1e-8, maximize=False,
    ),
    "adadelta": lambda p, g, first, second, steps: adadelta(
        p, g, second, [each.abs_() for each in first], steps, lr=0.1, rho=0.9, eps=1e-4, weight_decay=0.01,
        maximize=False, capturable=capturable(p[0]),
    ),
}  # fmt: skip


@case(
    p0=PARAMETERS["p0"],
    p1=PARAMETERS["p1"],
    g0=GRADIENTS["g0"],
    g1=GRADIENTS["g1"],
    first0=MEANS["mean0"],
    first1=MEANS["mean1"],
    second0=SQUARES["square0"],
    second1=SQUARES["square1"],
    step0=STEPS["step0"],
    step1=STEPS["step1"],
    step=OTHERS,
    require={"all": INDUCTOR_ONLY, "gpu": {"kernels": 2}},
    numerics=SQUARE,
)
def test_other(p0, p1, g0, g1, first0, first1, second0, second1, step0, step1, step):
    step([p0, p1], [g0, g1], [first0, first1], [second0, second1], [step0, step1])


# What torch.optim calls with fused=True: one kernel of PyTorch for all parameters. torch.optim switches Dynamo off for
# it, so the cases call the operators themselves. Inductor has no code for them.
ADAM = {"adam": torch._fused_adam_, "adamw": torch._fused_adamw_}


@case(
    p0=PARAMETERS["p0"],
    p1=PARAMETERS["p1"],
    g0=GRADIENTS["g0"],
    g1=GRADIENTS["g1"],
    mean0=MEANS["mean0"],
    mean1=MEANS["mean1"],
    square0=SQUARES["square0"],
    square1=SQUARES["square1"],
    max0=MAXIMA["max0"],
    max1=MAXIMA["max1"],
    step0=STEPS["step0"],
    step1=STEPS["step1"],
    operator=ADAM,
    amsgrad={"amsgrad": True, "plain": False},
    vary="one_at_a_time",
    require={
        "all": {"graph_breaks": 0},
        "adam": {"fallbacks": ["aten._fused_adam"]},
        "adamw": {"fallbacks": ["aten._fused_adamw"]},
    },
    missed={"all": {"kernels": 0, "judgement": "the operator that writes into its inputs leaves nothing to copy"}},
    numerics={"for": {"plain": SQUARE}},
)
def test_fused_adam(p0, p1, g0, g1, mean0, mean1, square0, square1, max0, max1, step0, step1, operator, amsgrad):
    operator(
        [p0, p1],
        [g0, g1],
        [mean0, mean1],
        [square0, square1],
        [max0, max1] if amsgrad else [],
        [step0, step1],
        **BETAS,
        lr=0.1,
        weight_decay=0.01,
        eps=1e-8,
        amsgrad=amsgrad,
        maximize=False,
    )


@case(
    p0=PARAMETERS["p0"],
    p1=PARAMETERS["p1"],
    g0=GRADIENTS["g0"],
    g1=GRADIENTS["g1"],
    mean0=MEANS["mean0"],
    mean1=MEANS["mean1"],
    require={"all": {"graph_breaks": 0}},
)
def test_fused_sgd(p0, p1, g0, g1, mean0, mean1):
    torch._fused_sgd_(
        [p0, p1],
        [g0, g1],
        [mean0, mean1],
        lr=0.1,
        momentum=0.9,
        weight_decay=0.01,
        dampening=0.0,
        nesterov=True,
        maximize=False,
        is_first_step=False,
    )
