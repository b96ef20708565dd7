"""The losses: right on each target, and one fused kernel forward."""

from conformance import case, module, tensor
from losses import InfoNCE, charbonnier_loss, focal_loss, info_nce, rounded

#: Everything fused into one kernel, and nothing left to an eager kernel.
FUSED = {"kernels": 1, "fallbacks": []}

#: Measured with torch 2.13 on emulated GPUs: 1 of 1961 elements is 1130 ulp off, where 1050 are allowed.
CANCELS = "1 - hit cancels near a sure hit: eager is 262 ulp off there, and compiled code has another last bit"


@case(
    logits=tensor(shape=[(37, 53)], dtype=["f32", "bf16"]),
    targets=tensor(37, 53, low=0, high=1),
    require={"all": FUSED},
)
def test_focal_loss(logits, targets):
    return focal_loss(logits.float(), targets)


@case(
    logits=tensor(37, 53),
    targets=tensor(37, 53, low=0, high=1),
    grad="logits",
    numerics={"for": {"gpu": {"without": {"exponents": CANCELS}}}},
)
def test_focal_loss_backward(logits, targets):
    return focal_loss(logits, targets)


@case(prediction=tensor(2000), target=tensor(2000), require={"all": FUSED})
def test_charbonnier_loss(prediction, target):
    return charbonnier_loss(prediction, target)


@case(queries=tensor(33, 65), keys=tensor(33, 65), require={"all": {"extern": ["mm"], "fallbacks": []}})
def test_info_nce(queries, keys):
    return info_nce(queries, keys)


# The module is built in the case. `grad=True`: gradients of the temperature, the queries and the keys.
@case(
    loss=module(InfoNCE),
    queries=tensor(33, 65),
    keys=tensor(33, 65),
    grad=True,
    require={"all": {"fallbacks": []}},
    numerics={
        "without": {"size 1": "a row of one feature is 1 or -1 after normalising: its gradient is 0 and rounding"}
    },
)
def test_learned_temperature(loss, queries, keys):
    return loss(queries, keys)


# Wrong: known_failures/losses.toml says why. `exact`, because rounding is what this function is for.
@case(weight=tensor(37, 53), numerics={"exact": True}, require={"all": FUSED})
def test_rounded(weight):
    return rounded(weight)
