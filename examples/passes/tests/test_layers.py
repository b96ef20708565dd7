"""The same contracts in cases: there results are compared too, natively on a CPU and emulated for a GPU."""

from conformance import case, contract, module, tensor
from engine import COMPILED_WITH, FeedForward, add_rms_norm

FUSED = contract(pattern=add_rms_norm, contains={"engine.add_rms_norm": 1}, lacks=["aten.rsqrt"], graph_breaks=0)


@case(
    hidden=tensor(7, 65),
    residual=tensor(7, 65),
    weight=tensor(65),
    dtype=["bf16", "f16"],
    config=COMPILED_WITH,
    require={"all": {**FUSED, "kernels": 0}},
)
def test_add_rms_norm(hidden, residual, weight):
    return add_rms_norm(hidden, residual, weight)


@case(
    layer=module(FeedForward, 64, 128, dtype="bf16"),
    hidden=tensor(16, 64, dtype="bf16"),
    residual=tensor(16, 64, dtype="bf16"),
    config=COMPILED_WITH,
    require={"all": FUSED | contract(kernels=1)},
)
def test_feed_forward(layer, hidden, residual):
    return layer(hidden, residual)
