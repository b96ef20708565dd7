"""smooth_l1_loss: squared below beta, linear above. At beta = 0 it equals l1_loss, and one entry point calls that."""

import torch
from expecttest import assert_expected_inline

from conformance import case, explanation, tensor

aten, functional = torch.ops.aten, torch.nn.functional

#: Both entry points have the same axes, so that each case of one has a partner in the other.
AXES = dict(
    shape=[(20,), (64, 1000)],
    dtype=["f32", "f16", "bf16"],
    beta=[1.0, 0.0, 0.5],
    grad={"forward": "", "backward": "x"},
    dynamic=[False, True],
    vary="one_at_a_time",
    also=[
        {"shape": (64, 1000), "reduction": "none"},
        {"shape": (64, 1000), "grad": "backward"},
        {"shape": (64, 1000), "dynamic": True},
        {"reduction": "none", "beta": 0.0},
        {"reduction": "none", "grad": "backward"},
        {"beta": 0.0, "grad": "backward"},
        {"dtype": "f16", "grad": "backward"},
        {"dynamic": True, "grad": "backward"},
    ],
)

#: One kernel for the loss, one for its gradient. On GPUs 20 elements are reduced at once ("persistent"), and 64x1000 in
#: two steps, which use the whole device.
FUSED = {
    "all": {"fallbacks": [], "extern": [], "graph_breaks": 0, "kernels.backward": 0},
    "backward": {"kernels.backward": 1},
    "cpu": {"vectorised": "yes", "kernels.forward": 1},
    "gpu 20": {"kernels.forward": 1},
    "gpu 20 mean static forward": {"kinds": ["persistent reduction"]},
    "gpu 20 sum static forward": {"kinds": ["persistent reduction"]},
    "gpu 64x1000 none": {"kernels.forward": 1},
    "gpu 64x1000 mean": {"kernels.forward": 2},
    "gpu 64x1000 mean backward torch<2.13": {"kernels.forward": 3},  # the loss itself was a separate kernel
    "cuda_sm100 64x1000 mean torch==2.13.*": {
        "kernels.forward": 1
    },  # there, Inductor split for Blackwell from 2**19 elements on
}


@case(
    x=tensor(),
    y=tensor(),
    reduction=["mean", "none", "sum"],
    **AXES,
    require=FUSED
    | {
        "beta0": {"different_code_from": "aten"},
        "beta0.5": {"same_code_as": "aten"},
        "beta1": {"same_code_as": "aten"},
    },
)
def test_functional(x, y, reduction, beta):
    return functional.smooth_l1_loss(x, y, reduction=reduction, beta=beta)


@case(
    x=tensor(),
    y=tensor(),
    reduction={"mean": 1, "none": 0, "sum": 2},
    **AXES,
    require=FUSED,
)
def test_aten(x, y, reduction, beta):
    return aten.smooth_l1_loss(x, y, reduction, beta)


#: What enters the formula of the loss and of its gradient, in each combination.
FORMULA = dict(
    x=tensor(12, 20, layout=["contiguous", "transposed"]),
    y=tensor(12, 20),
    beta=[1.0, 0.0, 0.5],
    grad=True,
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0, "kernels.backward": 1}},
)


@case(**FORMULA, reduction=["mean", "none", "sum"])
def test_functional_combinations(x, y, reduction, beta):
    return functional.smooth_l1_loss(x, y, reduction=reduction, beta=beta)


@case(**FORMULA, reduction={"mean": 1, "none": 0, "sum": 2})
def test_aten_combinations(x, y, reduction, beta):
    return aten.smooth_l1_loss(x, y, reduction, beta)


@case(
    x=tensor(20),
    y=tensor(20),
    config={"persistent": {}, "looped": {"triton.persistent_reductions": False}, "cpp_wrapper": {"cpp_wrapper": True}},
    require={
        "all": {"kernels": 1},
        "gpu persistent": {"kinds": ["persistent reduction"]},
        "gpu looped": {"kinds": ["reduction"]},
    },
)
def test_mean_of_20(x, y):
    return functional.smooth_l1_loss(x, y)


@case(x=tensor(20), y=tensor(20), require={"all": {"kernels": 1}}, numerics={"raises": "RuntimeError"})
def test_negative_beta(x, y):
    return functional.smooth_l1_loss(x, y, beta=-1.0)


@case(
    x=tensor(64, 1000),
    y=tensor(64, 1000),
    config={"split": {}, "unsplit": {"split_reductions": False}},
    require={"all": {"kernels": 1}, "gpu split": {"kernels": 2}, "cuda_sm100 torch==2.13.*": {"kernels": 1}},
)
def test_mean_of_64000(x, y):
    return functional.smooth_l1_loss(x, y)


def test_story_which_code_does_beta_0_give():
    answer = ""
    for entry in (test_functional, test_aten):
        code = explanation(entry, "mean-20-f32-beta0-forward-static", target="cuda_sm90").code
        loss = code[code.index("    tmp2 =") : code.index("tl.broadcast_to")].splitlines()[:-1]
        answer += "\n".join([entry.__name__, *loss, ""])
    assert_expected_inline(
        answer,
        """\
test_functional
    tmp2 = tmp0 - tmp1
    tmp3 = tl_math.abs(tmp2)
test_aten
    tmp2 = tmp0 - tmp1
    tmp3 = tl_math.abs(tmp2)
    tmp4 = tl.full([1, 1], 0.0, tl.float32)
    tmp5 = tmp3 < tmp4
    tmp6 = tmp3 * tmp3
    tmp7 = tl.full([1, 1], 0.5, tl.float32)
    tmp8 = tmp6 * tmp7
    tmp9 = tl.full([1, 1], float("inf"), tl.float32)
    tmp10 = tmp8 * tmp9
    tmp11 = tmp3 - tmp4
    tmp12 = tl.where(tmp5, tmp10, tmp11)
""",
    )
