"""quantize: numbers as 8-bit integers with a scale and a zero point, for a tensor or for each channel, and back."""

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers torch.ops.quantized_decomposed

from conformance import case, tensor

quantized = torch.ops.quantized_decomposed

ONE_KERNEL = {"kernels": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}
U8, I8 = (0, 255, torch.uint8), (-128, 127, torch.int8)
NAN = {"nan": "which integer a NaN becomes is not defined"}
EXACT = {"edges": "eager's log2 rounds a number beside a power of two to that power; compiled reads the exponent"}
#: For what makes integers: the operators refuse float64.
FROM_FLOAT32 = {"reference": "eager", "reason": "the operator takes float32 alone", "without": NAN}


# The scale and the zero point are numbers.
@case(x=tensor(9, 33, dtype=["f32", "bf16"]), require={"all": ONE_KERNEL}, numerics=FROM_FLOAT32)
def test_per_tensor(x):
    return quantized.quantize_per_tensor(x.float(), 0.05, 10, *U8)


@case(x=tensor(9, 33, dtype="u8"), result=[torch.float32, torch.bfloat16], require={"all": ONE_KERNEL})
def test_per_tensor_back(x, result):
    return quantized.dequantize_per_tensor(x, 0.05, 10, *U8, out_dtype=result)


# The scale and the zero point are tensors of one element.
@case(
    x=tensor(9, 33),
    scale=tensor(shape={"no_dimension": (), "one": (1,)}, low=0.02, high=0.1),
    require={"all": ONE_KERNEL},
    numerics=FROM_FLOAT32,
)
def test_by_tensors(x, scale):
    zero_point = torch.full_like(scale, 7, dtype=torch.int64)
    return quantized.quantize_per_tensor.tensor(x, scale, zero_point, *U8)


@case(x=tensor(9, 33, dtype="u8"), scale=tensor(shape=(), low=0.02, high=0.1), require={"all": ONE_KERNEL})
def test_by_tensors_back(x, scale):
    return quantized.dequantize_per_tensor.tensor(x, scale, torch.full_like(scale, 7, dtype=torch.int64), *U8)


@case(
    x=tensor(5, 9, 4),
    scale=tensor(9, low=0.02, high=0.1, dtype=["f32", "f64"]),
    zero_point=tensor(9, dtype="i64", low=-9, high=9),
    require={"all": ONE_KERNEL},
    numerics=FROM_FLOAT32,
)
def test_per_channel(x, scale, zero_point):
    return quantized.quantize_per_channel(x, scale, zero_point, 1, *I8)


@case(
    x=tensor(5, 9, 4, dtype="i8"),
    scale=tensor(9, low=0.02, high=0.1),
    zero_point=tensor(9, dtype="i64", low=-9, high=9),
    require={"all": ONE_KERNEL},
)
def test_per_channel_back(x, scale, zero_point):
    return quantized.dequantize_per_channel(x, scale, zero_point, 1, *I8)


def by_log2(x):
    return (torch.clamp(torch.ceil(torch.log2(x)), min=-127, max=127) + 127).to(torch.uint8)


def by_bits(x):
    bits = x.view(torch.int32)
    exponent = (bits >> 23) & 0xFF
    rounded_up = exponent + ((bits & 0x7FFFFF) != 0).to(torch.int32)
    return torch.clamp(rounded_up, 0, 255).to(torch.uint8)


# A power of two as in MX formats, rounded up. Inductor rewrites it on CUDA: newer GPUs have an instruction for it.
@case(
    x=tensor(9, 33),
    form={"by_log2": by_log2, "by_bits": by_bits},
    require={"all": ONE_KERNEL},
    numerics={"for": {"gpu by_log2": {"without": NAN}, "cuda by_log2 torch>=2.13": {"without": NAN | EXACT}}},
)
def test_power_of_two(x, form):
    return form(x.abs())
