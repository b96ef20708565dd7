"""quantized_weights: layers whose weights alone are integers or float16, or whose products are `torch._int_mm`.

torch/_inductor/fx_passes/quantization.py gives them to oneDNN and to other kernels for such weights.
"""

import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers torch.ops.quantized_decomposed
from torch.nn.functional import linear

from conformance import case, tensor

convert = torch.ops.quantized_decomposed.convert_element_type.no_fuse
X86 = "on ARM and on GPUs PyTorch has other kernels"
ONE_DTYPE = {"reference": "eager", "reason": "the weights have one dtype"}
#: Inductor freezes weights without gradients alone.
FROZEN = {
    "config": {"frozen": {"freezing": True}},
    "mode": "no_grad",
    "only": {"cpu_avx2": X86, "cpu_avx512": X86},
}
PACKED = {"patterns.qlinear_weight_prepack_matcher_count": 1, "graph_breaks": 0}
JOINED = {"config": {"joined": {"freezing": True, "cpp.enable_concat_linear": True}}}


def drawn(*shape, seed=0):
    """The same integers in each process."""
    return torch.randint(-50, 50, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


class Weights(nn.Module):
    """Inductor freezes the buffers of modules that are the same in each call. So these are no inputs of the cases."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rounded", drawn(16, 32) / 8)
        self.register_buffer("bias", drawn(16) / 8)
        for seed, name in enumerate(("first", "second", "third", "short")):
            self.register_buffer(name, drawn(16, 25 if name == "short" else 32, seed=seed))
            self.register_buffer(f"{name}_scale", torch.full((16,), 2.0**-6).bfloat16())


WEIGHTS = Weights()


def as_f16(x):
    return convert(convert(x, torch.float16), torch.float32)


def rounded_linear(x, bias=WEIGHTS.bias):
    return linear(x, as_f16(WEIGHTS.rounded), bias)


# The weight is packed as float16; the product is of float32.
@case(
    x=tensor(2, 32, 5),
    form={
        "matrix": lambda x: rounded_linear(x[0].t().contiguous()),
        "relu": lambda x: torch.relu(rounded_linear(x[0].t().contiguous())),
        "no_bias": lambda x: rounded_linear(x[0].t().contiguous(), None),
        "rows": lambda x: rounded_linear(x.mT.contiguous()),
        "rows_relu": lambda x: torch.relu(rounded_linear(x.mT.contiguous())),
        "transposed": lambda x: rounded_linear(x.mT),
        "transposed_no_bias": lambda x: rounded_linear(x.mT, None),
    },
    **FROZEN,
    numerics=ONE_DTYPE,
    require={"torch<2.14": PACKED},
)
def test_float16_weight(x, form):
    return form(x)


def integer_product(x, row_scale, bias=None):
    """A product of 8-bit integers, with a scale for each row and for each column."""
    rows = torch._int_mm(x.reshape(-1, 32), WEIGHTS.first.t())  # noqa: SLF001 - it has no public name
    scaled = rows.float() * row_scale * WEIGHTS.first_scale.float()
    if x.ndim > 2:
        scaled = scaled.reshape(*x.shape[:-1], 16)
    return scaled if bias is None else scaled + bias


# oneDNN multiplies by the scale of each column, and by that of the rows if they have one.
@case(
    x=tensor(4, 5, 32, dtype="i8"),
    row_scale=tensor(20, 1),
    form={
        "rows": integer_product,
        "rows_bias": lambda x, row_scale: integer_product(x, row_scale, WEIGHTS.bias),
        "one_scale": lambda x, row_scale: integer_product(x, row_scale[:1]),
        "matrix": lambda x, row_scale: integer_product(x.view(20, 32), row_scale),
    },
    **FROZEN,
    require={"torch<2.14": PACKED},
)
def test_integer_product(x, row_scale, form):
    return form(x, row_scale)


def scaled_linear(x, name="first"):
    return linear(x, getattr(WEIGHTS, name).to(x.dtype)) * getattr(WEIGHTS, f"{name}_scale")


def scaled_product(x, name="first"):
    return (x @ getattr(WEIGHTS, name).t().to(x.dtype)) * getattr(WEIGHTS, f"{name}_scale")


INTEGER_WEIGHT = {"all": {"extern": ["_weight_int8pack_mm"], "patterns.woq_matcher_count": 1, "graph_breaks": 0}}


# The integers stay in memory as such; the kernel converts them.
@case(
    x=tensor(2, 5, 32, dtype="bf16"),
    form={"matrix": lambda x: scaled_product(x[0]), "rows": scaled_linear},
    **FROZEN,
    require=INTEGER_WEIGHT,
)
def test_integer_weight(x, form):
    return form(x)


@case(x=tensor(2, 5, 32, dtype="bf16", layout="transposed"), **FROZEN, require=INTEGER_WEIGHT)
def test_integer_weight_and_transposed_rows(x):
    return scaled_linear(x)


# The kernel computes 8 or 16 columns of the weight at once. 25 is a multiple of neither.
@case(x=tensor(5, 25, dtype="bf16"), **FROZEN, require=INTEGER_WEIGHT)
def test_short_integer_weight(x):
    return scaled_product(x, "short")


# One product for three layers.
@case(
    x=tensor(5, 32, dtype="bf16"),
    **FROZEN | JOINED,
    require=INTEGER_WEIGHT,
)
def test_joined_integer_weights(x):
    return sum(scaled_product(x, name) for name in ("first", "second", "third"))
