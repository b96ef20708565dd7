"""arguments: operators with each argument at a value that is not the default, where no other case sets it.

selftests/cases/test_every_argument.py names those that are left. Numerics alone: the code is that of the operators' own
cases.
"""

import torch

from conformance import case, tensor

functional = torch.nn.functional
ALONE = {"require": {"all": {"graph_breaks": 0}}, "checks": ["numerics", "requirements"]}
MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")
INFINITE = {"without": {"inf": "the order of a sum decides where infinity appears in it"}}
ORDER = {"without": INFINITE["without"] | {"full_range": "the order of a sum decides where infinity appears in it"}}
NO_WEIGHT = {"inf": "infinity times a weight that rounding makes 0 is NaN"}
ROUNDED_WEIGHT = "the rounding of a weight counts as much as the largest element beside a small one"
WEIGHTS = {
    "without": NO_WEIGHT,
    "for": {"cpu": {"without": NO_WEIGHT | dict.fromkeys(("exponents", "full_range"), ROUNDED_WEIGHT)}},
}
LAST_NAN = {
    "without": {**INFINITE["without"], "nan": "of several NaN, max_pool takes another one: a known failure of pool"}
}
LOSSES = {
    "weighted": lambda x, y, w: (
        functional.binary_cross_entropy(x.sigmoid(), y.sigmoid(), w, reduction="sum"),
        functional.nll_loss(x.log_softmax(1), y.argmax(1), w[0], reduction="sum"),
        functional.multilabel_soft_margin_loss(x, (y > 0).float(), w[0]),
        functional.mse_loss(x, y, weight=w),
        functional.huber_loss(x, y, weight=w),
        functional.poisson_nll_loss(w, y.abs(), log_input=False, eps=0.25, reduction="sum"),
    ),
    "of_pairs": lambda x, y, w: (
        functional.cosine_embedding_loss(x, y, (w[:, 0] - 0.5).sign(), 0.25, reduction="sum"),
        functional.hinge_embedding_loss(x, (w - 0.5).sign(), margin=0.5),
        functional.margin_ranking_loss(x, y, (w - 0.5).sign(), 0.25, reduction="none"),
        functional.soft_margin_loss(x, (w - 0.5).sign(), reduction="sum"),
        functional.triplet_margin_loss(x, y, w, margin=0.5, p=1.0, eps=0.1, swap=True, reduction="none"),
    ),
}


@case(x=tensor(7, 12), **ALONE)
def test_kept_dimensions(x):
    few = (x > 1).any(1, keepdim=True), (x > -1).all(0, keepdim=True), (x > 0).any((0, 1)), (x > -9).all((0, 1))
    extremes = x.amin(0, keepdim=True), x.min(1, keepdim=True), x.argmax(1, keepdim=True)
    both = torch.aminmax(x, dim=1, keepdim=True)
    return *few, *extremes, *both, x.nanmedian(1, keepdim=True)


@case(x=tensor(7, 12), dtype=["f32", "bf16"], **ALONE, numerics=ORDER)
def test_kept_sums(x):
    kept = x.logsumexp(1, keepdim=True), x.nansum(0, keepdim=True), x.prod(1, keepdim=True)
    moments = x.var(0, correction=0, keepdim=True), torch.var_mean(x, 1, correction=2, keepdim=True)
    wide = [x.nansum(1, dtype=torch.float64), x.prod(0, dtype=torch.float64), x.cumprod(1, dtype=torch.float64)]
    norm = torch.linalg.vector_norm(x, 3, 0, dtype=torch.float64)
    return *kept, *moments, *wide, norm


@case(x=tensor(5, 33, dtype="bf16"), **ALONE)
def test_softmax_in_float32(x):
    return x.softmax(1, dtype=torch.float32), functional.log_softmax(x, 0, dtype=torch.float32)


@case(
    x=tensor(6, 9),
    y=tensor(6, 9),
    w=tensor(6, 9, low=0.1, high=1),
    losses=LOSSES,
    **ALONE,
    numerics={"without": {"nan": "eager refuses a probability that is NaN"}},
)
def test_losses(x, y, w, losses):
    return losses(x, y, w)


@case(
    x=tensor(6, 9),
    y=tensor(6, 9),
    weight=tensor(6, 9, low=0.1, high=1),
    **ALONE,
    numerics={"reference": "eager", "reason": "in float64, eager makes the mistake of the known failure, too"},
)
def test_weighted_l1(x, y, weight):
    return functional.l1_loss(x, y, weight=weight, reduction="none")


@case(x=tensor(6, 20), grad=[False, True], **ALONE)
def test_activations(x):
    written = [
        functional.celu(x * 1, 1.5, inplace=True),
        functional.elu(x * 2, 1.5, inplace=True),
        functional.hardsigmoid(x * 3, inplace=True),
        functional.hardswish(x * 4, inplace=True),
        functional.hardtanh(x * 5, inplace=True),
        functional.leaky_relu(x * 6, 0.25, inplace=True),
        functional.mish(x * 7, inplace=True),
        functional.relu6(x * 8, inplace=True),
        functional.selu(x * 9, inplace=True),
        functional.silu(x * 10, inplace=True),
        functional.threshold(x * 11, 0.5, 0.25, inplace=True),
        functional.rrelu(x * 12, inplace=True),
    ]
    scaled = torch.ops.aten.elu(x, 1.5, 2.0, 0.5)
    return *written, scaled, functional.hardshrink(x, 1.0), functional.softshrink(x.nan_to_num(), 1.0)


@case(
    x=tensor(2, 3, 5, 7),
    grid=tensor(2, 4, 6, 2, low=-1.2, high=1.2),
    grad=[False, "x grid"],
    **ALONE,
    numerics=WEIGHTS,
)
def test_resampled(x, grid):
    return (
        functional.interpolate(x, (9, 4), mode="bilinear", align_corners=True),
        functional.interpolate(x, (9, 4), mode="bicubic", align_corners=True),
        functional.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
        *(functional.interpolate(x, scale_factor=1.7, mode=mode) for mode in MODES),
        functional.grid_sample(x, grid, align_corners=True),
    )


@case(x=tensor(2, 3, 9, 12), grad=[False, True], **ALONE, numerics=LAST_NAN)
def test_pooled(x):
    return (
        functional.max_pool2d(x, 3, 2, 1, dilation=2, ceil_mode=True),
        functional.max_pool3d(x[None], (2, 3, 3), (1, 2, 2), (1, 1, 0), dilation=(1, 2, 3), ceil_mode=True),
        functional.unfold(x, (2, 3), dilation=2, stride=(3, 2)),
    )


@case(x=tensor(3, 12), grad=[False, True], **ALONE, numerics=INFINITE | {"for": {"backward": ORDER}})
def test_overhanging_window(x):
    return functional.lp_pool1d(x, 3, 3, stride=2, ceil_mode=True)


@case(x=tensor(4, 6, 5, low=-3, high=3), weight=tensor(6, low=0.5, high=2), grad=[False, "x weight"], **ALONE)
def test_normalised(x, weight):
    mean, var = weight.detach() * 0.5, weight.detach() * 2
    return (
        functional.batch_norm(x, mean, var, weight, eps=0.5),
        functional.instance_norm(x, mean, var, weight, weight, use_input_stats=False, momentum=0.3, eps=0.5),
        functional.group_norm(x, 3, weight, eps=0.5),
        functional.layer_norm(x.mT, (6,), weight, eps=0.5),
        functional.rms_norm(x.mT, (6,), weight, eps=0.5),
        functional.local_response_norm(x, 3, alpha=0.5, beta=0.25, k=2.0),
        functional.normalize(x, p=3.0, eps=4.0),
    )


@case(x=tensor(5, 9), rows=tensor(4, dtype="i64", low=0, high=5), grad=[False, "x"], **ALONE)
def test_written(x, rows):
    added = (x * 1).index_put_((rows,), x[:4] * 2, accumulate=True)
    scaled = (x * 2).index_add_(0, rows, x[:4], alpha=0.25)
    turned = torch.diagonal_scatter(x.expand(2, 5, 9) * 1, x[:2, :5], 0, 1, 2)
    put = (x * 3).put_(rows, x[0, :4], accumulate=True)
    limited = (x * 3).clamp_(min=-x.abs() - 0.5, max=x.abs() + 0.5)
    return added, scaled, turned, put, limited, x.rot90(3), torch.rsub(x, x.flip(0), alpha=3)


@case(x=tensor(8, 4), rows=tensor(6, dtype="i64", low=0, high=8), grad=[False, "x"], **ALONE)
def test_embedded(x, rows):
    return functional.embedding(rows, x, padding_idx=1, scale_grad_by_freq=True)


@case(
    x=tensor(30, low=0, high=9),
    edges=tensor(6, low=0, high=9),
    **ALONE,
)
def test_counted(x, edges):
    edges = edges.trunc()
    ordered, order = edges.sort()
    return (
        torch.searchsorted(ordered, x.trunc(), side="right", out_int32=True),
        torch.searchsorted(edges, x.trunc(), sorter=order, right=True),
        torch.bucketize(x.trunc(), ordered, right=True, out_int32=True),
        torch.histc(x, 5, min=2, max=7),
    )


@case(x=tensor(3, 7), **ALONE)
def test_created(x):
    made = torch.zeros_like(x, dtype=torch.int64), x.new_full((3, 7), 2.5, dtype=torch.float64)
    windows = (
        torch.hann_window(7, periodic=False, dtype=torch.float32, device=x.device),
        x.new_ones(7, dtype=torch.int8),
    )
    waves = torch.fft.fftfreq(7, d=0.5, device=x.device), torch.fft.fft(torch.complex(x, x.flip(0)))
    return *(torch.cat([x, each.view(-1, 7)]) for each in (*made, *windows)), waves[0] * x, waves[1]
