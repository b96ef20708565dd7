"""auto_chunker: with an option, Inductor computes a loss over many classes in parts, so that no part is large.

The pass looks for a product with more elements than its operands. It divides the rows from there up to the loss, and in
the gradients back to the operands. A part is a graph of its own, which the code calls for each part.
torch/_inductor/fx_passes/auto_chunker has it. By itself it takes products of a million elements and more.
"""

from torch.nn import functional

from conformance import case, tensor

ONLY = dict.fromkeys(("cpu_avx512", "cuda_sm90"), "the pass is the same for each target of a device type")

TWO_PARTS = {
    "auto_chunker.enable": True,
    "auto_chunker.output_size_threshold": 1,
    "auto_chunker.amplify_ratio_threshold": 1,
    "auto_chunker.num_chunk": 2,
}
OPERANDS = {
    "x": tensor(16, 8),
    "weight": tensor(64, 8),
    "bias": tensor(64),
    "target": tensor(16, dtype="i64", low=0, high=64),
}


def product(x, weight, _bias, target):
    return functional.cross_entropy(x @ weight.T, target)


def linear(x, weight, bias, target):
    return functional.cross_entropy(functional.linear(x, weight, bias), target, reduction="sum")


def logarithm(x, weight, _bias, _target):
    return -(x @ weight.T).softmax(-1).log().sum() * 2


def temperature(x, weight, _bias, target):
    return functional.cross_entropy((x @ weight.T).float() / 0.5, target).mul(2)


def by_row(x, weight, _bias, target):
    return functional.cross_entropy(x @ weight.T, target, reduction="none").view(4, 4).sum()


def two_sums(x, weight, bias, target):
    return functional.cross_entropy(x @ weight.T, target, reduction="none").sum() + bias.sum()


# Each part has the product, and two more for the gradients.
@case(
    **OPERANDS,
    loss={
        "product": product,
        "linear": linear,
        "logarithm": logarithm,
        "temperature": temperature,
        "two_sums": two_sums,
        "by_row": by_row,
    },
    grad="x weight bias",
    config={"parts": TWO_PARTS},
    only=ONLY,
    require={
        "all": {"graph_breaks": 0, "extern.InvokeSubgraph": 2},
        "logarithm torch<2.13": {"extern.InvokeSubgraph": 0},
        "two_sums torch<2.12": {"extern.InvokeSubgraph": 0},
        "by_row": {"extern.InvokeSubgraph": 0},  # the losses of the rows are viewed as a matrix
    },
)
def test_loss(x, weight, bias, target, loss):
    return loss(x, weight, bias, target)
