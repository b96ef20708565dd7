"""loss: cross-entropy, binary cross-entropy with logits, huber and others; smooth_l1_loss has its own file."""

import torch

from conformance import case, references, tensor

functional = torch.nn.functional

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
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
    require={"all": INDUCTOR_ONLY},
)
def test_cross_entropy(x, target, reduction, smoothing):
    return functional.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)


@case(x=tensor(16, 37), target=tensor(16, dtype="i64", low=0, high=37), require={"all": INDUCTOR_ONLY})
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
    require={"all": INDUCTOR_ONLY, "forward": {"kernels": 1}},
    numerics={
        "for": {"gpu": {"factor": 8, "reason": "a fused multiply-add rounds the product of x and 1 - target once less"}}
    },
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
    require={"all": INDUCTOR_ONLY, "forward": {"kernels": 1}},
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
    grad="x",
    require={"all": INDUCTOR_ONLY | {"kernels.forward": 1}},
)
def test_pairwise(x, y, loss):
    return loss(x, y)


LOSSES = {
    "mse": functional.mse_loss,
    "soft_margin": functional.soft_margin_loss,
    "poisson_nll": lambda x, y, reduction: functional.poisson_nll_loss(x, y.abs(), full=True, reduction=reduction),
    "hinge_embedding": lambda x, y, reduction: functional.hinge_embedding_loss(x, y.sign(), reduction=reduction),
    "multilabel_soft_margin": lambda x, y, reduction: functional.multilabel_soft_margin_loss(
        x, (y > 0).to(x.dtype), reduction=reduction
    ),
}


@case(
    x=tensor(12, 17),
    y=tensor(12, 17),
    loss=LOSSES,
    reduction=REDUCTIONS,
    dtype=["f32", "f16"],
    vary="one_at_a_time",
    # multilabel_soft_margin: a mean over the classes, then one over the batch
    require={"all": INDUCTOR_ONLY | {"kernels": 1}, "gpu multilabel_soft_margin": {"kernels": "<=2"}},
)
def test_elementwise(x, y, loss, reduction):
    return loss(x, y, reduction=reduction)


@case(
    x=tensor(12, 17),
    y=tensor(12, 17),
    loss={name: LOSSES[name] for name in ("hinge_embedding", "multilabel_soft_margin")},
    dtype=["f32", "bf16"],
    reduction="sum",
    grad="x",
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_elementwise_backward(x, y, loss, reduction):
    return loss(x, y, reduction=reduction)


@case(
    x=tensor(12, 17),
    weight=tensor(17, low=0, high=1),
    target=tensor(12, dtype="i64", low=0, high=17),
    options={
        "weighted": {},
        "weighted_smooth": {"label_smoothing": 0.2},
        "weighted_none": {"reduction": "none", "ignore_index": 0},
    },
    grad={"forward": "", "backward": "x"},
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_cross_entropy_weighted(x, weight, target, options):
    return functional.cross_entropy(x, target, weight, **options)


# The classes are in the second dimension.
@case(
    x=tensor(2, 5, 4, 6, layout="channels_last"),
    target=tensor(2, 4, 6, dtype="i64", low=0, high=5),
    grad={"forward": "", "backward": "x"},
    require={"all": INDUCTOR_ONLY},
)
def test_cross_entropy_of_images(x, target):
    return functional.cross_entropy(x, target)


@case(
    x=tensor(12, 17),
    y=tensor(12, 17),
    grad="x",
    require={"all": INDUCTOR_ONLY},
)
def test_cross_entropy_of_probabilities(x, y):
    return functional.cross_entropy(x, y.softmax(-1))


@case(
    x=tensor(12, 17),
    target=tensor(12, dtype="i64", low=0, high=17),
    ignored=[-100, 2],
    grad={"forward": "", "backward": "x"},
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_nll(x, target, ignored):
    return functional.nll_loss(x, target, ignore_index=ignored)


@case(
    x=tensor(12, 17, low=0, high=1),
    target=tensor(12, 17, low=0, high=1),
    grad={"forward": "", "backward": "x"},
    require={"all": INDUCTOR_ONLY, "forward": {"kernels": 1}},
)
def test_bce(x, target):
    return functional.binary_cross_entropy(x, target)


@case(
    x=tensor(12, 17),
    target=tensor(12, 17, low=0, high=1),
    pos_weight=tensor(17, low=0.5, high=4),
    grad="x",
    require={"all": INDUCTOR_ONLY},
)
def test_bce_with_logits_of_rare_classes(x, target, pos_weight):
    return functional.binary_cross_entropy_with_logits(x, target, pos_weight=pos_weight)


@case(
    x=tensor(12, 17),
    y=tensor(12, 17),
    loss={
        "kl_div_of_logarithms": lambda x, y: functional.kl_div(
            x.log_softmax(-1), y.log_softmax(-1), reduction="sum", log_target=True
        ),
        "gaussian_nll": lambda x, y: functional.gaussian_nll_loss(x, y, functional.softplus(x), full=True),
        "margin_ranking": lambda x, y: functional.margin_ranking_loss(x, y, x.sign(), margin=0.1),
        "cosine_embedding": lambda x, y: functional.cosine_embedding_loss(x, y, torch.ones_like(x[:, 0]), margin=0.2),
        "triplet_margin": lambda x, y: functional.triplet_margin_loss(x, y, x.flip(0)),
    },
    grad={"forward": "", "backward": "x"},
    vary="one_at_a_time",
    also=[{"loss": "triplet_margin", "grad": "backward"}],
    require={
        "all": {"extern": []},
        **dict.fromkeys(
            ("kl_div_of_logarithms", "margin_ranking", "cosine_embedding", "triplet_margin"), INDUCTOR_ONLY
        ),
    },
    missed={
        "gaussian_nll": {"graph_breaks": 0, "judgement": "the graph itself can assert that no variance is below 0"}
    },
    numerics={
        "for": {"cosine_embedding": {"without": {"far": "1 - cosine of nearly parallel vectors loses all digits"}}}
    },
)
def test_of_two(x, y, loss):
    return loss(x, y)


@case(x=tensor(5, 7), target=tensor(5, 7, dtype="i64", low=-1, high=6), grad=True, checks=("numerics",))
def test_multilabel_margin(x, target):
    """The first -1 of a row ends its labels."""
    return functional.multilabel_margin_loss(x, target)


test_references = references(
    test_cross_entropy,
    test_bce_with_logits,
    test_huber,
    test_pairwise,
    test_elementwise,
    test_elementwise_backward,
    test_cross_entropy_weighted,
    test_cross_entropy_of_images,
    test_cross_entropy_of_probabilities,
    test_nll,
    test_bce,
    test_bce_with_logits_of_rare_classes,
    test_of_two,
)


# Beside 1, the sigmoid of a sure and right answer has few digits left of its distance.
@case(x=tensor(100, low=6, high=14), y=tensor(100, low=0.5, high=1), grad="x", checks=["numerics"])
def test_soft_margin_of_sure_answers(x, y):
    return functional.soft_margin_loss(x, y)
