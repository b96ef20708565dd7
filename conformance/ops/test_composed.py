"""composed: operators that are right alone, and were once compiled wrongly together."""

import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch.func import grad as gradient_of

from conformance import FLUSHED, case, tensor

functional = torch.nn.functional
NO_GRAPH_BREAKS = {"all": {"graph_breaks": 0}}
OVERFLOW = {"without": {"huge": "whether a sum of the largest numbers overflows depends on its order"}}

PADDED = {
    "cumsum": lambda x: functional.pad(x.cumsum(-1), (1, 0)),
    "sum": lambda x: functional.pad(x.exp(), (1, 2), value=0.5).sum(-1),
    "amin": lambda x: functional.pad(x.abs() + 5, (2, 1), value=9.0).amin(-1),
}


@case(
    x=tensor(shape=[(3, 20), (1, 5000)]),
    padded=PADDED,
    require=NO_GRAPH_BREAKS,
    numerics={"for": {"gpu cumsum": OVERFLOW}},
)
def test_reduced_with_a_border(x, padded):
    return padded(x)


# All elements are above 0, the value of what lies outside of a part.
@case(
    x=tensor(2, 7, low=1, high=9),
    y=tensor(2, 5, low=1, high=9),
    dim={"columns": 1, "all": (0, 1)},
    require=NO_GRAPH_BREAKS,
    numerics={"exact": True},
)
def test_smallest_of_joined(x, y, dim):
    joined = torch.cat([x, y], 1)
    return joined.amin(dim), joined.amax(dim)


PRODUCTS = {
    "equal": lambda a, b, c: a @ b + c @ b,
    "one_row": lambda a, b, c: a @ b + c[:1] @ b,
    "first_row": lambda a, b, c: a[:1] @ b + c @ b,
}


@case(a=tensor(12, 20), b=tensor(20, 16), c=tensor(12, 20), summed=PRODUCTS, require=NO_GRAPH_BREAKS)
def test_sum_of_products(a, b, c, summed):
    return summed(a, b, c)


# In eager, what beta or alpha of 0 multiplies is ignored, also NaN.
@case(
    x=tensor(4),
    a=tensor(1, 4),
    b=tensor(4, 4),
    factors={"beta0": {"beta": 0}, "alpha0": {"alpha": 0}, "both": {"beta": 0.5, "alpha": 2}},
    require=NO_GRAPH_BREAKS,
)
def test_addmm_of_one_row(x, a, b, factors):
    return torch.addmm(x, a, b, **factors)


# A block has more elements than are added; those beyond must add nothing.
@case(
    x=tensor(37, 1),
    bias=tensor(1),
    require=NO_GRAPH_BREAKS,
    numerics={"for": {"gpu": {"without": {"huge": "on a device, atomic operations come in any order"}}}},
)
def test_number_added_by_index(x, bias):
    index = torch.zeros(37, 1, dtype=torch.int64, device=x.device)
    return torch.zeros(1, 1, device=x.device).scatter_reduce(0, index, x + bias, "sum")


SCATTERED = {
    "slice": lambda x, y: torch.slice_scatter(x, y[:, :6], 1, 0, 6).sum(1),
    "select": lambda x, y: torch.select_scatter(x, y[:, 0], 1, 2).sum(1),
    "diagonal": lambda x, y: torch.diagonal_scatter(x, y[:, 0]).sum(),
}


@case(x=tensor(8, 13), y=tensor(8, 13), scattered=SCATTERED, grad=True, require=NO_GRAPH_BREAKS)
def test_sum_of_a_scatter_backward(x, y, scattered):
    return scattered(x, y)


@case(
    x=tensor(3, 4),
    y=tensor(9, 4),
    index=tensor(9, dtype="i64", low=0, high=3),
    reduce=["amax", "mean"],
    grad="y",
    require=NO_GRAPH_BREAKS,
)
def test_index_reduce_backward(x, y, index, reduce):
    return x.index_reduce(0, index, y, reduce, include_self=False)


def _doubled_column(x):
    y = torch.zeros_like(x)
    y[:, 0] += x[:, 2].abs()
    y[:, 0] += x[:, 2].abs()
    return y.sum()


class NoGradient(torch.autograd.Function):
    """sin, with a gradient of 3 that autograd would not compute."""

    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, _output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(_, gradient):
        return gradient * 3


@case(
    x=tensor(5, 3),
    function={"in_place": _doubled_column, "by_hand": lambda x: (NoGradient.apply(x) * x).sum()},
    require=NO_GRAPH_BREAKS,
)
def test_gradient_inside(x, function):
    return gradient_of(function)(x)


@case(x=tensor(7, 9), grad=True, require={"all": {"extern": []}})
def test_hook_on_a_result(x):
    y = x.exp()
    y.register_hook(lambda gradient: gradient * 3)
    return y * x


# The scalar code at the end of a loop must answer NaN like the vectors before it.
@case(
    x=tensor(3),
    function={"sin_atan": lambda x: x.atan().sin(), "rsqrt": lambda x: x.rsqrt().angle().atan().sin()},
    numerics={"for": {"cuda": FLUSHED}},
)
def test_functions_of_few_elements(x, function):
    return function(x)


@case(x=tensor(2, 3), require=NO_GRAPH_BREAKS, numerics={"fill": {"output[0]": "it is a constant"}})
def test_norm_of_a_constant(x):
    constant = functional.layer_norm(torch.log2(torch.zeros(2, 3, device=x.device)), (3,))
    return constant, x + 1


COMPLEX = {
    "broadcast": lambda z: z + torch.ones(z.shape[0], 1, dtype=z.dtype, device=z.device),
    "conj": lambda z: z + z.conj(),
    "zero_dim": lambda z: z[0, 0] + z[0, 0],
    "number": lambda z: z * (1 + 2j),
}


@case(
    z=tensor(3, 4, dtype="c64"),
    function=COMPLEX,
    require=NO_GRAPH_BREAKS,
    numerics={"without": {"z": "NaN and infinity in one part: complex/functions"}},
)
def test_complex(z, function):
    return function(z)


@case(x=tensor(2, 9), reverse={"forwards": False, "backwards": True}, require=NO_GRAPH_BREAKS)
def test_generic_scan(x, reverse):
    return associative_scan(lambda a, b: a + b, x, dim=1, reverse=reverse, combine_mode="generic")


@case(
    x=tensor(shape=()),
    function={"flip": lambda x: x.flip(()), "cumsum": lambda x: x.cumsum(0), "sort": lambda x: x.sort().values},
)
def test_zero_dimensional(x, function):
    return function(x)


# The boundaries begin behind the first element of their memory.
@case(values=tensor(30, low=0, high=13), offsets=tensor(7, low=0, high=12), require=NO_GRAPH_BREAKS)
def test_search_in_a_part(values, offsets):
    return torch.searchsorted(offsets.sort().values[1:], values.relu(), right=True)


@case(
    x=tensor(6, 10, 4, layout=["strided", "transposed"]),
    dynamic=True,
    require=NO_GRAPH_BREAKS,
)
def test_reshaped_in_any_size(x):
    return x.mT.reshape(x.shape[0], -1) + 1, x.flatten()


@case(**{name: tensor(2, 32, 4, 16) for name in "qkv"}, require=NO_GRAPH_BREAKS)
def test_attention_of_permuted(q, k, v):
    q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
    return (torch.softmax(q @ k.transpose(-2, -1) / 3.0, dim=-1) @ v).reshape(2, 4, -1)


# Each row of x, shifted by its number: how attention adds positions relative to the query. The copy is vectorised along
# another loop than the softmax.
@case(x=tensor(32, 512), require=NO_GRAPH_BREAKS)
def test_softmax_of_relative_positions(x):
    shifted = torch.nn.functional.pad(x, (0, 15)).reshape(32, 17, 31)[:, :16, 15:].reshape(2, 16, 1, 16, 16)
    return shifted.expand(2, 16, 16, 16, 16).permute(0, 3, 1, 4, 2).reshape(2, 256, 256).softmax(-1)


# One sum per row and one per column of the same elements, where the rows do not fill the last block.
@case(x=tensor(133, 65, dtype=["f32", "bf16"]), require=NO_GRAPH_BREAKS)
def test_rows_and_columns(x):
    y = x * 2 + 0.25
    return y.amax(-1), y.float().sum(0)


@case(x=tensor(2, 6, 5, 7, layout="channels_last"), require=NO_GRAPH_BREAKS, numerics={"exact": True})
def test_memory_formats(x):
    return x.to(memory_format=torch.contiguous_format), torch.empty_like(x).copy_(x)


# One loop writes both formats: on cpu, a tile is transposed before it is stored.
@case(x=tensor(2, 48, 9, 9, dtype=["f32", "bf16", "u8"]), require=NO_GRAPH_BREAKS, numerics={"exact": True})
def test_both_memory_formats(x):
    return x + 1, (x * 2).contiguous(memory_format=torch.channels_last)


@case(x=tensor(6, 4), require=NO_GRAPH_BREAKS)
def test_divided_by_a_constant(x):
    ones = 1.0 * torch.ones(6, dtype=x.dtype, device=x.device)
    return (x / ones[..., None]).softmax(1)


@case(x=tensor(2, 65536, low=3, high=5), require=NO_GRAPH_BREAKS)
def test_variance_of_many(x):
    return x.var(-1)
