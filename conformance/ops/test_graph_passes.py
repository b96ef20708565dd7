"""graph_passes: rewrites of Inductor's graphs before and after they are divided into forward and backward.

torch/_inductor/fx_passes/joint_graph.py and post_grad.py have them, and each is named here as the fact `patterns` does.
"""

import torch

from conformance import case, tensor

ONE_KERNEL = {"kernels": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_OF_EACH = {
    "cpu_avx512": "the passes are the same for each target of a device type",
    "cuda_sm90": "the passes are the same for each target of a device type",
}
ONE_CPU = {"cpu_avx512": "the passes are the same for each device"}
ONE_CUDA = {"cuda_sm90": "the passes are the same for each GPU"}
OVERFLOW = {"without": {"huge": "whether a sum overflows depends on its order"}}


def rewritten(number, **names):
    """Each label's graph is rewritten so many times by this pattern of post_grad.py."""
    return {label: {f"patterns.post_grad.{name}": number} for label, name in names.items()}


def beginning_again(x, y):
    both = torch.cat([x, y], 1)
    return torch.cat([both, both[:, :3]], 1)


def first_seven_again(x, y):
    both = torch.cat([x, y], 1)
    return torch.cat([both, both[:, :7]], 1)


# A cat whose operands are pieces of another cat or of a split. Only neighbours in their order are the whole again.
@case(
    x=tensor(8, 5),
    y=tensor(8, 7),
    form={
        "beginning_again": beginning_again,
        "more_than_the_first_again": first_seven_again,
        "pieces_joined": lambda _x, y: torch.cat(torch.split(y, [2, 3, 2], 1), 1) * 2,
        "pieces_reversed": lambda _x, y: torch.cat(torch.split(y, [2, 3, 2], 1)[::-1], 1) * 2,
        "joined_then_split": lambda x, y: [piece * 2 for piece in torch.split(torch.cat([x, y], 1), [5, 7], 1)],
    },
    require={"all": INDUCTOR_ONLY, "pieces_joined": ONE_KERNEL, "pieces_reversed": {"patterns.post_grad": 0}}
    | rewritten(
        1,
        beginning_again="cat_slice_cat",
        more_than_the_first_again="cat_slice_cat",
        pieces_joined="splitwithsizes_cat_replace",
        joined_then_split="cat_splitwithsizes_replace",
    ),
    only=ONE_CPU,
    numerics={"exact": True},
)
def test_cat(x, y, form):
    return form(x, y)


# The largest of all elements is the largest of the rows' largest. Few elements are not worth it.
@case(
    x=tensor(shape={"many": (64, 80), "few": (8, 20)}),
    only=ONE_OF_EACH,
    require={"all": INDUCTOR_ONLY, "many": {"bytes": "<=1.1"}, "few": {"bytes": ">=1.8"}},
    numerics={"exact": True},
)
def test_partial_reduction(x):
    return x.amax(1, keepdim=True), x.amax()


# A bias before a pointwise operation is added by its kernel, with both factors. In half precision the product adds it.
@case(
    bias=tensor(7),
    x=tensor(8, 5),
    y=tensor(5, 7),
    dtype=["f32", "f16"],
    config={"default": {}, "added_apart": {"keep_addmm_fused_for_half_dtypes": False}},
    only={"cuda_sm90 torch>=2.13": "the option exists from torch 2.13 on"},
    require={"all": {"fallbacks": [], "extern": ["mm"], "kernels": 1}, "f16 default": {"extern": ["addmm"]}},
    numerics={"for": {"f16 added_apart": OVERFLOW}},
)
def test_bias(bias, x, y):
    return torch.relu(torch.addmm(bias, x, y, alpha=2, beta=3))


# Operations that change nothing leave one kernel, for the multiplication.
@case(x=tensor(8, 10), only=ONE_CPU, require={"all": ONE_KERNEL | {"bytes": 1}}, numerics={"exact": True})
def test_no_operation(x):
    same = torch.cat([torch.nn.functional.pad(x.repeat(1, 1), (0, 0))], 1)
    return torch.slice_scatter(same, same, 0, 0, 8).view(x.dtype) * 2


# An index on the cpu is made on the device of what it indexes.
@case(
    x=tensor(8, 10),
    only=ONE_CUDA,
    require={"all": ONE_KERNEL | {"patterns.joint_graph.fix_iota_device": 1}},
    numerics={"exact": True},
)
def test_index_on_cpu(x):
    return x[torch.arange(1, 7, 2)] * 2


# A conversion to a wider dtype and back is none. Through a narrower dtype it stays; with the option all roundings stay.
@case(
    x=tensor(8, 10),
    through={
        "wider": lambda x: x.double().float() + 1,
        "two_narrower": lambda x: x.double().float().half().float() + 1,
    },
    config={"default": {}, "each_rounding": {"emulate_precision_casts": True}},
    only=ONE_CPU,
    require={"all": ONE_KERNEL, "wider": {"casts": 0}},
)
def test_conversions(x, through):
    return through(x)


# The same elements as integers, twice, and back again.
@case(x=tensor(8, 10), only=ONE_CPU, require={"all": ONE_KERNEL}, numerics={"exact": True})
def test_views_as_dtype(x):
    return x.view(torch.int32) & 0xFFFF, x.view(torch.int32) >> 16, x.view(torch.int32).view(torch.float32) + 1


# A factor that is the same in a whole row is applied after the row's largest element is subtracted.
@case(
    x=tensor(8, 10),
    column=tensor(8, 1),
    row=tensor(10),
    form={
        "multiplied": lambda x, column, _row: (x * column).softmax(1),
        "divided": lambda x, column, _row: (x / column).softmax(1),
        "divided_to_double": lambda x, column, _row: torch.softmax(x / column, 1, dtype=torch.float64),
        "by_row": lambda x, _column, row: (x * row).softmax(1),
    },
    only=ONE_CPU,
    require={
        "all": INDUCTOR_ONLY,
        "multiplied": {"patterns.joint_graph.mul_softmax_pattern": 1},
        "divided": {"patterns.joint_graph.div_softmax_pattern": 1},
        "divided_to_double": {"patterns.joint_graph.div_softmax_pattern": 1},
        "by_row": {"patterns.joint_graph": 0},
    },
)
def test_scaled_softmax(x, column, row, form):
    return form(x, column, row)


# Adding or subtracting zeros, and multiplying with or dividing by ones, leave nothing to do.
@case(
    x=tensor(8, 10),
    form={
        "zeros": lambda x: (torch.zeros_like(x) + x - torch.zeros_like(x)) * 2,
        "ones": lambda x: torch.ones_like(x) * x / torch.ones_like(x) * 2,
        "wider": lambda x: x.half() + torch.zeros(8, 10),
        "broadcast": lambda x: x[:1] + torch.zeros_like(x),
    },
    only=ONE_CPU,
    require={"all": ONE_KERNEL | {"bytes": 1}},
)
def test_neutral(x, form):
    return form(x)


#: Scalars on the CPU that are inputs of each graph.
FACTOR, SUMMAND = torch.tensor(3.0), torch.tensor(2.0)


# For CUDA graphs, scalars on the CPU are copied to the GPU together, before the kernels.
@case(
    x=tensor(8, 10),
    config={"partitioned": {"triton.cudagraphs": True, "graph_partition": True}},
    only=ONE_CUDA,
    require={"all": {"graph_breaks": 0}},
)
def test_scalars_on_cpu(x):
    return x * FACTOR + SUMMAND


@torch.library.custom_op("conformance_graph_passes::double_", mutates_args={"x"})
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


def doubled(x):
    y = x + 1
    double_(y)
    return y * 3


def half_doubled(x):
    y = torch.cat([x, x])
    double_(y[:8])
    return y


def doubled_as_integers(x):
    double_(x.view(torch.int32))
    return x + 1


# An operator that writes to its argument writes to what the graph computed, and to no copy.
@case(
    x=tensor(8, 10),
    form={"value": doubled, "slice": half_doubled, "view_of_input": doubled_as_integers},
    config={"bases": {}, "arguments": {"enable_auto_functionalized_v2": False}},
    only=ONE_CPU,
    require={"all": {"graph_breaks": 0, "extern": [], "fallbacks": ["conformance_graph_passes.double_"]}},
    numerics={"for": {"view_of_input": {"reference": "eager", "reason": "a float64 number has other bits to double"}}},
)
def test_operator_that_writes(x, form):
    return form(x)
