"""selective_scan: a block as Mamba's: a causal convolution, and a recurrence whose coefficients depend on the input.

"Mamba: Linear-Time Sequence Modeling with Selective State Spaces", arXiv 2312.00752. "Transformers are SSMs", arXiv
2405.21060, has the form with matrix products.
"""

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan

from conformance import case, module, tensor
from conformance.models.declarations import limited_since_2_13

ONE_GRAPH = {"graph_breaks": 0}


def step_by_step(decay, update):
    """The states h[t] = decay[t] * h[t - 1] + update[t]: a loop over dimension 1, which is unrolled."""
    state, states = torch.zeros_like(update[:, 0]), []
    for a, b in zip(decay.unbind(1), update.unbind(1), strict=True):
        state = a * state + b
        states.append(state)
    return torch.stack(states, 1)


def combine(left, right):
    return left[0] * right[0], left[1] * right[0] + right[1]


def pointwise_scan(decay, update):
    """The same as one scan, which is one kernel on a GPU. PyTorch refuses it on the CPU, where float64 is computed."""
    mode = "generic" if decay.device.type == "cpu" else "pointwise"
    return associative_scan(combine, (decay, update), dim=1, combine_mode=mode)[1]


def generic_scan(decay, update):
    """The same as steps of ordinary operators, about log2(length) of them."""
    return associative_scan(combine, (decay, update), dim=1, combine_mode="generic")[1]


class Mamba(nn.Module):
    """Mamba's mixer. `inner`: channels of the recurrence, each with `states` numbers. `rank`: of the step sizes."""

    def __init__(self, scan, dim=24, inner=40, states=5, rank=3):
        super().__init__()
        self.scan, self.sizes = scan, (rank, states, states)
        self.into = nn.Linear(dim, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.select = nn.Linear(inner, sum(self.sizes), bias=False)
        self.step = nn.Linear(rank, inner)
        self.log_decay = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        x, gate = self.into(x).chunk(2, -1)
        x = nn.functional.silu(self.conv(x.mT)[..., : x.size(1)].mT)
        step, write, read = self.select(x).split(self.sizes, -1)
        step = nn.functional.softplus(self.step(step))[..., None]
        decay = torch.exp(-step * self.log_decay.exp())
        states = self.scan(decay, step * write[:, :, None] * x[..., None])
        y = (states * read[:, :, None]).sum(-1) + self.skip * x
        return self.out(y * nn.functional.silu(gate))


# x: (batch, length, features).
@case(
    net=module(Mamba, step_by_step),
    x=tensor(2, 7, 24),
    dtype=["f32", "bf16"],
    grad=[False, True],
    vary="one_at_a_time",
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH,
            "forward": {"fallbacks": [], "bytes": "<=4.6", "buffers": "<=7"},
            "backward": {"fallbacks": ["aten.convolution_backward"], "bytes": "<=2.85", "buffers": "<=41"},
            "cpu forward": {"kernels": "<=3"},
            "cpu backward": {"kernels": "<=7"},
            "gpu forward": {"kernels": "<=4"},  # all steps are in one of them
            "gpu backward": {"kernels": "<=16"},
        }
    ),
)
def test_unrolled(net, x):
    return net(x)


@case(
    net=module(Mamba, pointwise_scan),
    x=tensor(2, 13, 24),
    only={"gpu": "PyTorch refuses combine_mode='pointwise' on the CPU"},
    require=limited_since_2_13(
        {"all": ONE_GRAPH | {"fallbacks": [], "kinds.scan": 1, "kernels": "<=4", "bytes": "<=6.4"}}
    ),
)
def test_one_scan(net, x):
    return net(x)


@case(
    net=module(Mamba, generic_scan),
    x=tensor(2, 13, 24),
    require=limited_since_2_13(
        {"all": ONE_GRAPH | {"fallbacks": []}, "cpu": {"kernels": "<=3"}, "gpu": {"kernels": "<=13"}}
    ),
)
def test_generic_scan(net, x):
    return net(x)


# Not as the difference of two sums: it cancels.
def segment_sums(x):
    """The sum of x[:, m + 1] to x[:, l] at [:, l, m], and -inf where l < m."""
    square = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device)
    parts = x[:, :, None].expand(-1, -1, x.size(1), -1).masked_fill(square.triu()[..., None], 0)
    return parts.cumsum(1).masked_fill(square.triu(1)[..., None], -torch.inf)


class StateSpaceDuality(nn.Module):
    """The mixer of Mamba 2 as matrix products: each head has one decay, and a triangle of products is the scan."""

    def __init__(self, dim=24, heads=3, width=8, states=5):
        super().__init__()
        self.heads, self.sizes = heads, (heads * width, states, states, heads)
        self.into = nn.Linear(dim, sum(self.sizes), bias=False)
        self.log_decay = nn.Parameter(torch.arange(1.0, heads + 1).log())
        self.out = nn.Linear(heads * width, dim, bias=False)

    def forward(self, x):
        x, write, read, step = self.into(x).split(self.sizes, -1)
        step = nn.functional.softplus(step)  # (batch, length, heads)
        decay = segment_sums(-step * self.log_decay.exp()).exp()
        weights = torch.einsum("bls,bms->blm", read, write)[..., None] * decay * step[:, None]
        y = torch.einsum("blmh,bmhw->blhw", weights, x.unflatten(-1, (self.heads, -1)))
        return self.out(y.flatten(-2))


@case(
    net=module(StateSpaceDuality),
    x=tensor(2, 13, 24),
    grad=[False, True],
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH,
            "forward": {"extern.bmm": 2, "bytes": "<=5.7", "buffers": "<=7"},
            "backward": {"extern.bmm": 6, "bytes": "<=3.1", "buffers": "<=26"},
            "cpu forward": {"fallbacks": ["aten.cumsum"], "kernels": "<=5"},
            "cpu backward": {"fallbacks": ["aten.cumsum", "aten.cumsum"], "kernels": "<=8"},
            "gpu": {"fallbacks": []},
            "gpu forward": {"kernels": "<=4"},
            "gpu backward": {"kernels": "<=14"},
        }
    ),
)
def test_duality(net, x):
    return net(x)
