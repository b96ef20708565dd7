"""lowering_choices: operators that Inductor lowers in another way for some sizes, dtypes and options."""

import torch
from torch import _check
from torch.nn.functional import adaptive_max_pool2d, pad, scaled_dot_product_attention

from conformance import case, tensor

aten = torch.ops.aten
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
SYMBOLS = {"dynamo.capture_scalar_outputs": True, "dynamo.capture_dynamic_output_shape_ops": True}


# Inductor makes the rows of a large tensor a multiple of 128 bytes long. Where a product reads the tensor with one more
# column, there is a place for that column already, and a second kernel writes it.
@case(
    x=tensor(4, 2047),
    y=tensor(2048, 4),
    only={"gpu": "on the CPU, Inductor does not lengthen rows"},
    require={"all": {"kernels": 2, "fallbacks": [], "patterns.inplace_padding": 1, "graph_breaks": 0}},
)
def test_pad_in_place(x, y):
    return pad(x + 1, (0, 1, 0, 0)) @ y


def operator_with_effect(name, schema, function):
    operator = torch.library.custom_op(
        f"conformance_lowering_choices::{name}", function, mutates_args=(), schema=schema
    )
    operator.register_fake(function)
    if hasattr(operator, "register_effect"):  # not in torch 2.8, that of Intel's extension
        operator.register_effect(torch._library.effects.EffectType.ORDERED)  # noqa: SLF001
    return operator


one = operator_with_effect("one", "(Tensor x) -> Tensor", lambda x: x.clone())
two = operator_with_effect("two", "(Tensor x) -> (Tensor, Tensor)", lambda x: (x.clone(), x + 1))
none = operator_with_effect("none", "(Tensor x) -> ()", lambda x: None)  # noqa: ARG005


# Operators with an effect are called in the order of the program, also those without a result.
@case(
    x=tensor(6, 8),
    require={
        "all": {
            "fallbacks": [f"conformance_lowering_choices.{name}" for name in ("none", "two", "one")],
            "graph_breaks": 0,
        }
    },
)
def test_effects(x):
    none(x)
    first, second = two(x + 1)
    return one(x * 2), first, second


@case(
    x=tensor(3, 4),
    form={
        "slice_before_the_first": lambda x: aten.slice(x, 0, -100, 2) + 1,
        "slice_after_the_last": lambda x: aten.slice(x, 1, 1, 100) + 1,
        "scatter_of_nothing": lambda x: x.scatter(1, torch.zeros(0, 4, dtype=torch.int64, device=x.device), x),
        "mean_of_a_number": lambda x: torch.mean(x.sum(), [], dtype=torch.float64),
        "prod_of_bool": lambda x: torch.prod(x < 9, 0),
        "amax_of_bool": lambda x: torch.amax(x > 0, 0),
        "amin_of_bool": lambda x: torch.amin(x > 0, 0),
        "foreach_addcdiv": lambda x: torch._foreach_addcdiv([x, x], [x, x], [x + 9, x + 8], value=3),  # noqa: SLF001
        "lerp_to_channels_last": lambda x: torch.lerp(
            x.reshape(2, 3, 2, 1).contiguous(memory_format=torch.channels_last), x.reshape(2, 3, 2, 1), 0.3
        ),
    },
    require={"all": ONE_KERNEL | {"bytes": "<=1.2"}, "lerp_to_channels_last": {"bytes": "<=2"}},
)
def test_form(x, form):
    return form(x)


# The decomposition of a pool to one element is another one for large images.
@case(
    x=tensor(2, 3, 20, 24),
    require={"all": ONE_KERNEL | {"bytes": 1}},
)
def test_pool_to_one_element(x):
    return adaptive_max_pool2d(x, (1, 1))


# A kernel computes each element of the result of cat from one of its inputs. With this option, Inductor counts the
# operations of three inputs first: the kernel computes only simple ones.
@case(
    x=tensor(3, 4),
    y=tensor(2, 4),
    inputs={
        "simple": lambda x, y: [x * 2, y, x + y[0]],
        "complex": lambda x, y: [x.exp().sin().cos() / 3, y * 2, x],
    },
    config={"counted": {"max_complex_pointwise_cat_inputs": 2}},
    only={"gpu torch>=2.13": "on the CPU, Inductor does not count operations; the option is new in torch 2.13"},
    require={"all": INDUCTOR_ONLY},
)
def test_cat(x, y, inputs):
    return torch.cat(inputs(x, y)) + 1


# With this option, Inductor fits the layout of a tensor once that it passes to a fused attention twice.
@case(
    q=tensor(1, 2, 8, 16),
    x=tensor(1, 2, 13, 16),
    config={"cached": {"cache_sdpa_constraint": True}},
    only={"cuda torch>=2.13": "the option is new in torch 2.13, and on the CPU it changes nothing"},
    require={"all": {"kernels": 1, "extern": [], "graph_breaks": 0}},
)
def test_attention(q, x):
    key = x.sin()
    return scaled_dot_product_attention(q, key, key)


@case(
    x=tensor(8, 9),
    numbers=tensor(2, dtype="i64", low=2, high=7),
    part={"from_the_number": lambda x, n: x[n:] + 1, "without_the_last": lambda x, n: x[:-n] + 1},
    config={"symbols": SYMBOLS},
    require={"all": {"kernels": 1, "fallbacks": [], "graph_breaks": 0}},
)
def test_slices(x, numbers, part):
    number = numbers[1].item()
    _check(number > 0)
    return part(x, number)


# Inductor copies and joins exponents, and does not compute with them.
@case(
    x=tensor(3, 4),
    moved={"joined": lambda x: torch.cat([x, x]), "part": lambda x: x[1:].contiguous()},
    only={"cuda_sm90": "C++ has no such type, and Triton handles it in the same way on each GPU"},
    require={"all": {"graph_breaks": 0}},
)
def test_exponents(x, moved):
    return moved(x.view(torch.uint8).view(torch.float8_e8m0fnu)).view(torch.uint8)


@case(
    x=tensor(3, 16),
    weight=tensor(8, 16),
    bias=tensor(8),
    only={"cpu_avx2": "PyTorch has the operator for x86 alone, and its code is the same with other instructions"},
    require={
        "all": {
            "fallbacks": ["_quantized._wrapped_linear_prepack", "_quantized._wrapped_quantized_linear_prepacked"],
            "kernels": 1,
            "graph_breaks": 0,
        }
    },
)
def test_quantized_linear(x, weight, bias):
    scale, zero = torch.tensor(0.05), torch.tensor(3)
    return torch.ops._quantized.wrapped_quantized_linear(x, scale, zero, weight, scale, zero, bias, scale, zero, 8)  # noqa: SLF001
