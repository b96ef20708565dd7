"""aliasing: results and inputs that share memory with what is written to, and reads before and after a write."""

import torch

from conformance import case, tensor

NO_EXTERN = {"extern": [], "graph_breaks": 0}

#: y is new in eager. A compiler may write it into x, but x is overwritten after that.
SCATTERED = {
    "slice": lambda x, y: torch.slice_scatter(x, y[1:3], 0, 1, 3),
    "select": lambda x, y: torch.select_scatter(x, y[0], 0, 2),
    "diagonal": lambda x, y: torch.diagonal_scatter(x, y[:, 0]),
}


@case(
    x=tensor(4, 6),
    y=tensor(4, 6),
    scattered=SCATTERED,
    require={"all": NO_EXTERN},
)
def test_overwritten_after_scatter(x, y, scattered):
    result = scattered(x, y)
    x.zero_()
    return result


# The rows are added to each other in another order than they were written.
@case(x=tensor(6, 33), y=tensor(6, 33), require={"all": NO_EXTERN})
def test_put_then_reversed(x, y):
    x.index_put_((torch.arange(6, device=x.device),), y)
    x.add_(x.flip(0))
    return x


# The results are views of the input, and show what is written to it later.
@case(x=tensor(20), require={"all": NO_EXTERN})
def test_view_before_the_write(x):
    expanded, part = x.expand(3, 20), x[3:]
    x.div_(1.5)
    return expanded, part


@case(x=tensor(3, 5), y=tensor(4, 3), index=tensor(4, dtype="i64", low=0, high=5), require={"all": {"graph_breaks": 0}})
def test_add_to_rows_of_a_transpose(x, y, index):
    rows = x.permute(1, 0)
    rows.index_add_(0, index, y)
    return rows


# The zeros are a result as well, so nothing may be written into them.
@case(
    y=tensor(5),
    index=tensor(5, dtype="i64", low=0, high=3),
    require={"all": NO_EXTERN},
    numerics={"fill": {"output[1]": "they are zeros"}},
)
def test_zeros_beside_their_sum(y, index):
    zeros = torch.zeros(3, device=y.device)
    return zeros.index_add(0, index, y, alpha=2) / 2, zeros


# Each row is read after all rows are added, in one row or in several.
@case(
    x=tensor(30, 4),
    index=tensor(30, dtype="i64", low=0, high=1),
    rows=[1, 3],
    require={"all": NO_EXTERN},
    numerics={"for": {"gpu": {"without": {"huge": "on a device, atomic operations come in any order"}}}},
)
def test_gathered_after_scatter(x, index, rows):
    total = torch.zeros(rows, 4, device=x.device)
    total.scatter_add_(0, index[:, None].expand(30, 4), x)
    return total.index_select(0, index)


@case(x=tensor(6, 20), require={"all": {"graph_breaks": 0}})
def test_rows_from_other_rows(x):
    order = torch.tensor([5, 0, 3, 1, 2, 4], device=x.device)
    x[order] = x[order.flip(0)]
    return x


@case(x=tensor(4, 2), require={"all": {"graph_breaks": 0}})
def test_two_views_of_a_complex_result(x):
    z = torch.view_as_complex(x + 1)
    return torch.view_as_real(z) + 1, torch.view_as_real(z + 1)


# Adding zeros, or multiplying by ones, makes a tensor that keeps its values when x changes.
NEUTRAL = {
    "plus_zeros": lambda x: x + torch.zeros_like(x),
    "times_ones": lambda x: x * torch.ones_like(x),
    "clone": lambda x: x.clone(),
    "cat": lambda x: torch.cat([x]),
    "repeat": lambda x: x.repeat(1, 1),
}


@case(x=tensor(7, 20), copied=NEUTRAL, require={"all": NO_EXTERN})
def test_copy_before_the_write(x, copied):
    y = copied(x)
    x.add_(1)
    return y, y * 2


@case(
    x=tensor(2, 6, 4, 5, layout=["contiguous", "channels_last"]),
    read={
        "of_a_result": lambda x: torch.as_strided(x + 1, (3, 4), (7, 2), 5),
        "of_a_part": lambda x: torch.as_strided(x[1:], (3, 4), (7, 2)) + 1,
    },
    require={"all": {"graph_breaks": 0}},
)
def test_as_strided(x, read):
    return read(x)


# One of the two has a gradient, and both are one tensor.
@case(x=tensor(7, 9), grad=True, require={"all": NO_EXTERN})
def test_detached_beside(x):
    y = x.exp() * 2
    return y, y.detach()


# The buffer of `first` may be reused only after its last reader.
@case(x=tensor(12, 20), w=tensor(20, 20), require={"all": {"graph_breaks": 0}})
def test_result_read_late(x, w):
    first = x.sin()
    second = first @ w
    third = (second + 1).softmax(-1)
    return (third @ w).relu() + first, second.amax(0)


@case(x=tensor(5, 7), checks=("numerics",))
def test_list_and_reversed(x):
    torch._foreach_add_([x], [x.flip(0)])
    return x


@case(x=tensor(5, 7), checks=["numerics"])
def test_two_copies(x):
    y = x * 2
    return y.clone(), y.clone()
