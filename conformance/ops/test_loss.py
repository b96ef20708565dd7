"""loss: cross-entropy, binary cross-entropy with logits, huber and their like; smooth_l1_loss has a file of its own."""

import torch

from conformance import case, tensor

functional = torch.nn.functional

ALONE = {"fallbacks": [], "extern": [], "graph_breaks": 0}
REDUCTIONS = ["mean", "none", "sum"]


@case(
    x=tensor(16, 37),
    target=tensor(16, dtype="i64", low=0, high=37),
    reduction=REDUCTIONS,
    smoothing={"hard": 0.0, "smooth": 0.1},
    dtype=["f32", "bf16"],
    grad={"forward": "", "backward": "x"},
    vary="one_at_a_time",
    also=[{"smoothing": "smooth", "grad": "backward"}],
    require={"all": ALONE},
)
def test_cross_entropy(x, target, reduction, smoothing):
    return functional.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)


@case(x=tensor(16, 37), target=tensor(16, dtype="i64", low=0, high=37), require={"all": ALONE})
def test_cross_entropy_ignoring(x, target):
    return functional.cross_entropy(x, target, ignore_index=3)


@case(
    x=tensor(16, 37),
    target=tensor(16, 37, low=0, high=1),
    weight=tensor(37, low=0, high=1),
    reduction=REDUCTIONS,
    dtype=["f32", "bf16"],
    grad={"forward": "", "backward": "x"},
    vary="one_at_a_time",
    require={"all": ALONE, "forward": {"kernels": 1}},
)
def test_bce_with_logits(x, target, weight, reduction):
    return functional.binary_cross_entropy_with_logits(x, target, weight, reduction=reduction)


@case(
    x=tensor(200),
    y=tensor(200),
    reduction=REDUCTIONS,
    delta=[1.0, 0.5],
    grad={"forward": "", "backward": "x"},
    vary="one_at_a_time",
    require={"all": ALONE, "forward": {"kernels": 1}},
)
def test_huber(x, y, reduction, delta):
    return functional.huber_loss(x, y, reduction=reduction, delta=delta)


@case(
    x=tensor(200, low=0.05, high=1),
    y=tensor(200, low=0.05, high=1),
    loss={
        "mse": functional.mse_loss,
        "l1": functional.l1_loss,
        "kl_div": lambda x, y: functional.kl_div(x.log(), y, reduction="sum"),
        "soft_margin": functional.soft_margin_loss,
        "poisson_nll": functional.poisson_nll_loss,
    },
    grad={"forward": "", "backward": "x"},
    require={"all": ALONE, "forward": {"kernels": 1}},
)
def test_pairwise(x, y, loss):
    return loss(x, y)
