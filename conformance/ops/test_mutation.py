"""mutation: functions that write to their inputs or to views of them, or that return their inputs."""

import torch

from conformance import case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}

UNDEFINED = "it is not defined which integer a float out of range becomes"


@case(
    x=tensor(20, 33, layout=["contiguous", "transposed", "sliced"]),
    y=tensor(20, 33),
    dtype=["f32", "bf16", "i32", "u8"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
)
def test_add_in_place(x, y):
    return x.add_(y)


#: The write and the read have different loops, although each element is written before it is read.
TWO_LOOPS = {
    "gpu": {
        "kernels": 1,
        "judgement": "the second kernel reads each element that the first one wrote, in the same order",
    }
}


@case(x=tensor(20, 33), require={"all": INDUCTOR_ONLY, "cpu": {"kernels": 1}}, missed=TWO_LOOPS)
def test_write_through_view(x):
    x[1:5].mul_(2)
    return x.sum(-1)


@case(x=tensor(20, 33), require={"all": INDUCTOR_ONLY})
def test_write_through_transpose(x):
    x.T.add_(1)
    return x * 2


@case(x=tensor(20), y=tensor(20), require={"all": ONE_KERNEL})
def test_write_then_read(x, y):
    z = x + y
    x.copy_(y)
    return z, x * 2


@case(x=tensor(20, 33), require={"all": INDUCTOR_ONLY | {"kernels": 0}})
def test_return_input(x):
    return x, x.view(33, 20), x[3:]


@case(
    x=tensor(20, 33), index=tensor(5, dtype="i64", low=0, high=20), require={"all": {"graph_breaks": 0, "extern": []}}
)
def test_index_fill_in_place(x, index):
    x[index] = 0
    return x + 1


@case(
    x=tensor(20, 33),
    grad=True,
    require={"all": INDUCTOR_ONLY},
    numerics={"factor": 8, "reason": "in its gradient, 1 - sigmoid is the difference of two nearly equal numbers"},
)
def test_in_place_on_a_result(x):
    y = x * 2
    y.sigmoid_()
    return y


@case(x=tensor(20, 33), require={"all": INDUCTOR_ONLY})
def test_shift(x):
    x[1:] = x[:-1].clone()
    return x


@case(x=tensor(20, 33), y=tensor(20, 33), require={"all": INDUCTOR_ONLY})
def test_copy_then_write(x, y):
    x[0:] = y[0:]
    y.add_(1)


@case(x=tensor(40, layout=["contiguous", "strided"]), require={"all": {"graph_breaks": 0, "extern": []}})
def test_write_then_as_strided(x):
    x.add_(1)
    return torch.as_strided_copy(x, (5, 3), (4, 2))


@case(x=tensor(20, 33, dtype="i64", low=-100, high=100), require={"all": {"graph_breaks": 0, "extern": []}})
def test_read_as_another_dtype_then_write(x):
    y = x.view(torch.int32) * 2
    y.sub_(3)
    x[:, 2:5] = 2
    return y.view(torch.int64)


# Eager refuses to write to memory that it reads at the same time.
@case(x=tensor(20, 20), require={"all": {"graph_breaks": 0}}, numerics={"raises": "RuntimeError"})
def test_overlap(x):
    x[1:] += x[:-1]
    return x


@case(
    x=tensor(20, 33),
    dtype=["f32", "i64"],
    require={"all": INDUCTOR_ONLY, "cpu": {"kernels": 1}},
    missed={"gpu": {"kernels": 1, "judgement": "both kernels write the same number of constants, to two tensors"}},
    numerics={"fill": {"output": "it is 0 + 1 for each input"}},
)
def test_fill(x):
    x.zero_()
    return x + 1


@case(x=tensor(5), y=tensor(5), require={"all": ONE_KERNEL})
def test_same_result_twice(x, y):
    z = x + y
    return z, z, {"again": z, "view": z[1:]}


#: Functions that write to x.
IN_PLACE = {
    "diagonal": lambda x, _: x.fill_diagonal_(0),
    "masked": lambda x, y: x.masked_fill_(y > 0, 2),
    "columns": lambda x, y: x[:, 2:9].mul_(y[:, 3:10]),
    "transposed_rows": lambda x, y: x.T[3:5].copy_(y.T[1:3]),
    "steps": lambda x, y: x[1::2].sub_(y[::2][:4]),
    "swap": lambda x, _: x.copy_(x[:, list(range(19, -1, -1))]),
    "out": lambda x, y: torch.maximum(x, y, out=x),
}


@case(
    x=tensor(9, 20),
    y=tensor(9, 20),
    written=IN_PLACE,
    dtype=["f32", "i16"],
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_in_place(x, y, written):
    return written(x, y), x[1:]


@case(
    x=tensor(3, 4, 5, 6, layout=["strided", "offset", "channels_last"]),
    y=tensor(3, 4, 5, 6, dtype=["f32", "u8"]),
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
)
def test_in_place_layouts(x, y):
    x.mul_(y)
    return x.relu_()


# As in an optimizer: the parameter requires a gradient, the write to it has none.
@case(x=tensor(9, 20), y=tensor(9, 20), mode="no_grad", grad="x", require={"all": INDUCTOR_ONLY})
def test_step(x, y):
    x.sub_(y, alpha=0.1)
    return x.norm(dim=1)


@case(
    x=tensor(9, 20),
    y=tensor(9, 20, dtype=["f64", "i32"]),
    require={"all": ONE_KERNEL},
    numerics={"for": {"gpu i32": {"without": {"wrap": UNDEFINED}}}},
)
def test_copy_of_another_dtype(x, y):
    x.copy_(y)
    return y.copy_(x * 2)


@case(x=tensor(9, 20), y=tensor(9, 20), grad="y", require={"all": INDUCTOR_ONLY})
def test_buffer_and_gradient(x, y):
    x.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
    return (y - x[0]) * y


test_references = references(test_in_place, test_in_place_layouts, test_step, test_copy_of_another_dtype)


# The windows hold two of every five columns.
@case(x=tensor(9, 20), require={"all": {"graph_breaks": 0}})
def test_windows_apart(x):
    x.unfold(1, 2, 5).mul_(2)
    return x.sum(1)


@case(x=tensor(9, 20), require={"all": {"graph_breaks": 0}})
def test_overlapping_windows(x):
    return (x + x).unfold(1, 4, 2).abs_()


# Outside training, dropout returns its input.
@case(x=tensor(9, 20), require={"all": {"graph_breaks": 0}})
def test_dropout_of_nothing(x):
    return torch.nn.functional.dropout(x, 0.5, training=False).add_(1)


# The write back comes after a use of the values before it, so that the first write must go to a copy.
@case(
    x=tensor(20, 33),
    written={
        "index_put": lambda x: x.index_put((torch.tensor([3, 7], device=x.device),), x[:2] + 1),
        "slice_scatter": lambda x: x.slice_scatter(x[:5] * 2, 0, 5, 10),
        "scatter": lambda x: x.scatter(0, torch.zeros(1, 33, dtype=torch.int64, device=x.device), x[4:5]),
    },
    require={"all": {"graph_breaks": 0}},
)
def test_read_before_copied_back(x, written):
    after = written(x)
    before = x.sin()
    x.copy_(after)
    return before


@case(x=tensor(20), w=tensor(20), grad="w", checks=["numerics"])
def test_scaled_by_a_weight(x, w):
    x.mul_(w)
    return x.sum()
