"""decomposition_choices: operators that Inductor decomposes for some shapes, devices and options alone."""

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers torch.ops.quantized_decomposed
from torch.nn import functional

from conformance import case, tensor

ONE_KERNEL = {"kernels": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}
NOT_ON_CPU = {"gpu": "on the CPU the option does not change products"}
CPU_ALONE = {"cpu": "eager has the operator on the CPU alone"}
#: The answer is the same in every call: it says whether the numbers are as they should be.
ANSWER = {"exact": True, "fill": {"output": "it says whether the numbers are as they should be"}}


# With coordinate_descent_tuning, a product with one row or one column is a sum, and not a product of the library.
@case(
    a=tensor(3, 1, 96),
    b=tensor(3, 96, 32),
    product={
        "mm_row": lambda a, b: a[0] @ b[0],
        "mm_column": lambda a, b: b[0].t() @ a[0].t(),
        "bmm_row": lambda a, b: a @ b,
    },
    config={"tuned": {"coordinate_descent_tuning": True}},
    only=NOT_ON_CPU,
    require={"gpu": ONE_KERNEL},
)
def test_vector_products(a, b, product):
    return product(a, b)


# On the CPU, a product that is one number or tiny is a kernel.
@case(
    a=tensor(2, 1, 12),
    b=tensor(2, 12, 9),
    bias=tensor(9),
    product={
        "mm_number": lambda a, b, bias: a[0] @ b[0, :, :1],  # noqa: ARG005
        "bmm_number": lambda a, b, bias: a @ b[:, :, :1],  # noqa: ARG005
        "addmm_number": lambda a, b, bias: torch.addmm(bias[:1], a[0], b[0, :, :1], beta=0.5, alpha=2),
        "addmm_row": lambda a, b, bias: torch.addmm(bias, a[0], b[0], beta=0.5, alpha=2),
        "mm_outer": lambda a, b, bias: a[0, 0, :5, None] @ bias[None],  # noqa: ARG005
    },
    only={"cpu": "on GPUs these are products of the library or of test_mm.py"},
    require={"cpu": ONE_KERNEL},
)
def test_small_products(a, b, bias, product):
    return product(a, b, bias)


# There is one element to sum over, so the product is a multiplication. On the CPU, addmm stays one of the library.
@case(
    a=tensor(3, 7, 1),
    b=tensor(3, 1, 9),
    product={"bmm": torch.bmm, "addmm": lambda a, b: torch.addmm(a[0], a[1], b[1], beta=0.5, alpha=2)},
    require={"gpu torch>=2.13": ONE_KERNEL, "bmm torch>=2.13": ONE_KERNEL},
)
def test_outer_products(a, b, product):
    return product(a, b)


# The number of rows is known, so Inductor needs no symbol for it.
@case(
    x=tensor(8, 9),
    counts=tensor(4, dtype=["i64", "i32"]),
    require={
        "all": {"graph_breaks": 0},
        "gpu": {"fallbacks": []},
        "cpu": {"fallbacks": ["aten.cumsum", "aten.searchsorted"]},
    },
)
def test_repeat_interleave(x, counts):
    first = (counts > 0).to(counts.dtype)  # 0 or 1
    return x.repeat_interleave(torch.cat((first, 3 - first)), 0, output_size=12)


@case(
    sequence=tensor(9, low=-1, high=1),
    search={
        "searchsorted": lambda sequence: torch.searchsorted(sequence, 0.1),
        "bucketize": lambda sequence: torch.bucketize(0.1, sequence, right=True),
    },
    require={"all": {"graph_breaks": 0}, "gpu": {"fallbacks": []}},
)
def test_place_of_a_number(sequence, search):
    return search(sequence.sort().values)


# A copy where the operator without `copy` in its name gives a view.
@case(
    x=tensor(6, 8),
    copy={
        "narrow": lambda x: torch.narrow_copy(x, 1, 2, 3),
        "view": lambda x: torch.view_copy(x, (4, 12)),
        "view_of_dtype": lambda x: torch.view_copy(x, dtype=torch.int32),
    },
    require={"all": ONE_KERNEL},
)
def test_copies(x, copy):
    return copy(x)


@case(x=tensor(6, 20), y=tensor(3), require={"all": {"extern": [], "graph_breaks": 0}})
def test_put_in_place(x, y):
    return x.clone().put_(torch.tensor([0, 29, -3], device=x.device), y)


# A new tensor has the strides of the other one, or those of the format that is asked for.
@case(
    x=tensor(2, 3, 5, 7, layout=["channels_last", "transposed"]),
    made={
        "rand": torch.rand_like,
        "rand_in_format": lambda x: torch.rand_like(x, memory_format=torch.contiguous_format),
        "randint": lambda x: torch.randint_like(x, 9),
        "full": lambda x: torch.full_like(x, 0.5, memory_format=torch.channels_last),
    },
    vary="one_at_a_time",
    require={"all": {"fallbacks": [], "graph_breaks": 0}},
    numerics=ANSWER,
)
def test_like(x, made):
    new = made(x)
    return (new >= 0) & (new < 9)


# Each number below 0 is multiplied with another slope. A division on a GPU rounds, so that x / x is not always 1.
@case(
    x=tensor(9, 33),
    require={
        "all": {"graph_breaks": 0},
        "torch<2.14": {"fallbacks": ["aten.uniform"]},
        "torch>=2.14": {"fallbacks": []},
    },
    numerics=ANSWER,
)
def test_random_slope(x):
    slope = functional.rrelu(x, 0.25, 0.75, training=True) / x
    has_slope = (x.abs() > 1e-30) & (x.abs() < 1e30)
    return torch.where(x < 0, (slope > 0.24) & (slope < 0.76), (slope - 1).abs() < 1e-5) | ~has_slope


# The last eight bytes of a row are its scale and its offset. Smaller bytes than 100 make them finite.
@case(
    row=tensor(6, 24, dtype="u8", low=0, high=100),
    only=CPU_ALONE,
    require={"cpu": ONE_KERNEL},
    numerics={"reference": "eager", "reason": "the scale and the offset are float32 values in four bytes each"},
)
def test_row_of_bytes(row):
    return torch.ops.quantized.embedding_bag_byte_unpack(row)


TIMES_1 = {
    "without": {
        "inf": "eager multiplies a second number with 1 + 0j before it adds, and 0 times inf is NaN",
        "nan": "eager multiplies a second number with 1 + 0j before it adds, and 0 times NaN is NaN; this differs "
        "between seeds",
    }
}


# Inductor adds complex numbers as pairs of real ones, unless the last dimension has another stride.
@case(
    x=tensor(5, 8, dtype="c64"),
    y=tensor(8, dtype="c64"),
    added={
        "rows": lambda x, y: torch.add(x, y, alpha=2),
        "numbers": lambda x, y: x[0, 0] + y[0],
        "number": lambda x, y: x + y[0],
        "columns": lambda x, y: x.t() + y[:, None],
    },
    require={"all": {"graph_breaks": 0}},
    numerics={"for": {"number": TIMES_1, "numbers": TIMES_1}},
)
def test_complex_sums(x, y, added):
    return added(x, y)


@case(
    x=tensor(9, 33),
    only={"cpu": "the decomposition makes a tensor of the CPU"},
    require={"cpu": {"graph_breaks": 0, "fallbacks": [], "extern": []}},
    numerics={"reference": "eager", "reason": "the operator takes float32 alone"},
)
def test_scale_of_values(x):
    return torch.ops.quantized_decomposed.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)


# FBGEMM packs the weights when the program runs.
@case(
    x=tensor(5, 24),
    weight=tensor(16, 24),
    bias=tensor(16),
    only=CPU_ALONE,
    require={"cpu": {"graph_breaks": 0}},
    numerics={"reference": "eager", "reason": "the operator takes float32 alone"},
)
def test_linear_in_float16(x, weight, bias):
    return torch.ops.quantized.linear_dynamic_fp16_unpacked_weight(x, weight, bias)
