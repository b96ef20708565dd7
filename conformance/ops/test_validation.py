"""validation: arguments that eager refuses. Compiled must refuse them too, not return any numbers."""

import torch

from conformance import case, tensor

functional = torch.nn.functional
CPU = {"cpu": "on a GPU, eager's check of values is an assertion that ends the process"}
RAISES = {"raises": "RuntimeError"}
NUMERICS = ("numerics",)


@case(x=tensor(4, 4, low=0.1, high=0.9), target=tensor(4, 4, low=1.5, high=2), only=CPU, numerics=RAISES)
def test_cross_entropy_of_no_probability(x, target):
    return functional.binary_cross_entropy(x, target)


@case(x=tensor(3, 4), numerics={"raises": "IndexError"})
def test_select_beyond_the_end(x):
    base = x.unsqueeze(1)
    return torch.cat([base.select(1, 0), base.select(1, 1)], -1)


NO_KERNEL = {
    "bilinear": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "adaptive_max_pool": lambda x: functional.adaptive_max_pool2d(x, (1, 1)),
    "softmax": lambda x: torch.softmax(x, -1),
    "bitwise_and": lambda x: x.double() & 3,
}


@case(
    x=tensor(2, 3, 8, 9, dtype="i64"),
    call=NO_KERNEL,
    only={"cpu": "a GPU has kernels for other dtypes, and without it the CPU's eager is asked"},
    numerics={"raises": "NotImplementedError"},
    checks=NUMERICS,
)
def test_dtype_without_kernel(x, call):
    return call(x)


@case(x=tensor(5, 7), numerics=RAISES, checks=NUMERICS)
def test_one_minus_mask(x):
    mask = x < 0
    return x * (1 - mask) + mask * (x * 0.3)


@case(x=tensor(1, 1, dtype="f16"), weight=tensor(1, 1), numerics=RAISES, only=CPU, checks=NUMERICS)
def test_product_of_one_of_two_dtypes(x, weight):
    return functional.linear(x, weight)


READ_BY_INDEX = {
    "indexed": lambda x, index: x[index],
    "index_select": lambda x, index: x.index_select(0, index),
    "gathered": lambda x, index: x.gather(0, index[:, None].expand(-1, 12)),
}
OUT_OF_RANGE = {
    "raises": "RuntimeError",
    "for": {"indexed": {"raises": "IndexError"}, "index_select": {"raises": "IndexError"}},
}


@case(
    x=tensor(20, 12),
    index=tensor(7, dtype="i64", low=20, high=30),
    read=READ_BY_INDEX,
    only=CPU,
    numerics=OUT_OF_RANGE,
)
def test_index_too_large(x, index, read):
    return read(x, index)


@case(
    x=tensor(20, 12),
    index=tensor(7, dtype="i64", low=-30, high=-20),
    read=READ_BY_INDEX,
    only=CPU,
    numerics=OUT_OF_RANGE,
)
def test_index_too_small(x, index, read):
    return read(x, index)


@case(x=tensor(20, dtype="i64", low=-5, high=-1), only=CPU, numerics=RAISES)
def test_one_hot_of_negative(x):
    return functional.one_hot(x, 5)


@case(x=tensor(4, 4, low=1, high=2), only=CPU, numerics={"raises": "_LinAlgError"})
def test_cholesky_of_no_positive_matrix(x):
    return torch.linalg.cholesky(-x)


@case(
    x=tensor(4, 4),
    function={"inv": torch.linalg.inv, "solve": lambda x: torch.linalg.solve(x, x + 1)},
    only=CPU,
    numerics={"raises": "_LinAlgError"},
)
def test_inverse_of_a_singular_matrix(x, function):
    return function(torch.zeros_like(x))


@case(x=tensor(4, 4, low=1.5, high=2), only=CPU, numerics=RAISES)
def test_bernoulli_of_no_probability(x):
    return torch.bernoulli(x)


@case(
    x=tensor(2, 3, 0, 5),
    sampling=["nearest", "bilinear"],
    only={"cpu": "eager makes this check before it chooses a device"},
    numerics=RAISES,
)
def test_resized_from_nothing(x, sampling):
    return functional.interpolate(x, size=(3, 3), mode=sampling)


@case(x=tensor(shape=(), dtype="u8"), only=CPU, numerics={"raises": "NotImplementedError"})
def test_logcumsumexp_of_a_byte(x):
    return torch.logcumsumexp(x, 0)


@case(x=tensor(3, 4), y=tensor(4, 5), numerics=RAISES)
def test_shapes_that_do_not_match(x, y):
    return x + y


@case(x=tensor(5, 7), alpha=[0.0], numerics=RAISES, checks=NUMERICS)
def test_celu_without_alpha(x, alpha):
    return functional.celu(x, alpha)


@case(mean=tensor(5, 7), std=tensor(5, 7, low=-2, high=-1), only=CPU, numerics=RAISES, checks=NUMERICS)
def test_normal_of_negative_deviation(mean, std):
    return torch.normal(mean, std)


@case(x=tensor(5, 7), numerics=RAISES, checks=NUMERICS)
def test_clamp_beyond_the_dtype(x):
    return torch.clamp(x, -3.4e39, 3.4e39)


@case(x=tensor(5, 7), low=tensor(5, dtype="f64"), high=tensor(5, dtype="f64"), numerics=RAISES, checks=NUMERICS)
def test_out_of_another_dtype(x, low, high):
    return torch.aminmax(x, dim=-1, out=(low, high))


@case(
    bias=tensor(5, 1),
    a=tensor(1, 6),
    b=tensor(6, 1),
    only={"cpu": "on a GPU, an assertion of Inductor refuses it too"},
    numerics=RAISES,
    checks=NUMERICS,
)
def test_bias_larger_than_the_product(bias, a, b):
    return torch.addmm(bias, a, b)


@case(x=tensor(4, 3), target=tensor(4, dtype=["bool", "i32"], low=0, high=2), numerics=RAISES, checks=NUMERICS)
def test_classes_of_another_dtype(x, target):
    return functional.cross_entropy(x, target)


@case(
    x=tensor(5, 7),
    weight=tensor(7),
    bias=tensor(7, dtype=["u8", "f64"]),
    only={"cpu": "kernels of GPUs accept other pairs of dtypes"},
    numerics=RAISES,
    checks=NUMERICS,
)
def test_bias_of_another_dtype(x, weight, bias):
    return functional.layer_norm(x, (7,), weight, bias)
