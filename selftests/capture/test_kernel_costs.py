"""The cost of each call: bytes that add up to those of the graph, and operations by the flop counter's formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from capturing import captured

from conformance.cases.inputs import tensor


def costs(fn, target, **options):
    """The calls of all modules, after a check that their bytes are those of the modules."""
    modules = captured(fn, target, **options).modules
    for module in modules:
        for name in ("read", "written"):
            moved = sum(call["cost"][name] for call in module.observed["calls"])
            assert moved == module.observed["moved"][name], (module.kind, name)
    return [call for module in modules for call in module.observed["calls"]]


def product_and_softmax(x, y):
    return (x @ y).relu().softmax(-1)


def sorted_with_indices(x):
    return x.sort(-1)


def foreach(x, y):
    return torch._foreach_add([x, y], 1)


def embedding(table, tokens):
    return F.embedding(tokens, table).sum(1)


@pytest.mark.parametrize("target", ["cuda_sm90", "cpu_avx512"])
def test_the_bytes_of_calls_add_up_to_those_of_the_graph(target):
    floats = {"x": tensor(20, 30), "y": tensor(30, 40)}
    costs(product_and_softmax, target, grad="x y", **floats)
    costs(product_and_softmax, target, dynamic=True, **floats)
    costs(sorted_with_indices, target, x=tensor(20, 30))
    costs(foreach, target, **floats)
    tokens = tensor(5, 7, dtype="i64", low=0, high=20)
    costs(embedding, target, grad="table", table=tensor(20, 30), tokens=tokens)


@pytest.mark.parametrize(("dtype", "kind"), [("f32", "matrix f32"), ("bf16", "matrix bf16"), ("f64", "matrix f64")])
def test_a_product_has_two_operations_for_each_multiply_add(dtype, kind):
    sizes = {"x": tensor(20, 30, dtype=dtype), "y": tensor(30, 40, dtype=dtype)}
    product, softmax = costs(product_and_softmax, "cuda_sm90", **sizes)
    assert product["cost"]["operations"] == {kind: 2 * 20 * 30 * 40}
    assert list(softmax["cost"]["operations"]) == ["f64" if dtype == "f64" else "f32"]


def test_symbolic_sizes_count_as_in_the_call():
    sizes = {"x": tensor(20, 30), "y": tensor(30, 40)}
    fixed, symbolic = (costs(product_and_softmax, "cuda_sm90", dynamic=dynamic, **sizes) for dynamic in (False, True))
    assert symbolic[0]["cost"] == fixed[0]["cost"]
    assert symbolic[1]["cost"]["read"] == fixed[1]["cost"]["read"]  # the loops of softmax differ


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("target", ["cuda_sm90", "cpu_avx512", "xpu_pvc"])
def test_attention_counts_as_its_products(target):
    inputs = {name: tensor(2, 4, 64, 32, dtype="bf16") for name in "qkv"}
    [call] = costs(attention, target, **inputs)
    assert call["cost"]["operations"] == {"matrix bf16": 2 * (2 * 2 * 4 * 64 * 64 * 32)}


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_causal_attention_leaves_out_half_of_the_products():
    inputs = {name: tensor(2, 4, 64, 32, dtype="bf16") for name in "qkv"}
    [whole], [half] = (costs(fn, "cuda_sm90", **inputs) for fn in (attention, causal))
    assert 2 * half["cost"]["operations"]["matrix bf16"] == whole["cost"]["operations"]["matrix bf16"]


def test_a_sort_takes_several_steps_for_each_element():
    short, long = (costs(sorted_with_indices, "cuda_sm90", x=tensor(4, size)) for size in (16, 256))
    short, long = (call["cost"]["operations"]["f32"] for [call] in (short, long))
    assert long * 16 * 10 == short * 256 * 36


def add(x, y):
    return x + y


def sine(x):
    return x.sin()


def integers(x):
    return x * 3


def test_operations_of_loops():
    assert costs(add, "cuda_sm90", x=tensor(10), y=tensor(10))[0]["cost"]["operations"] == {"f32": 20}
    [plain], [costly] = costs(add, "cuda_sm90", x=tensor(10), y=tensor(10)), costs(sine, "cuda_sm90", x=tensor(10))
    assert costly["cost"]["operations"]["f32"] > 10 * plain["cost"]["operations"]["f32"]
    assert costs(integers, "cuda_sm90", x=tensor(10, dtype="i32"))[0]["cost"]["operations"] == {"integer": 20}


def convolution(x, w):
    return F.conv2d(x, w)


def test_a_convolution_of_float32_may_be_rounded_on_cuda_alone():
    sizes = {"x": tensor(1, 2, 5, 5), "w": tensor(3, 2, 3, 3)}
    found = {}
    for target in ("cuda_sm90", "cpu_avx512"):
        calls = costs(convolution, target, **sizes)
        found[target] = next(call["cost"]["operations"] for call in calls if call["call"] == "extern")
    count = 2 * 3 * 2 * 3 * 3 * 3 * 3
    assert found == {"cuda_sm90": {"matrix tf32": count}, "cpu_avx512": {"matrix f32": count}}


def branches(flag, x):
    return torch.cond(flag, lambda x: x.sin(), lambda x: x + 1, (x,))


def test_the_kernels_of_a_branch_have_costs():
    [module] = captured(branches, "cuda_sm90", flag=tensor(1, dtype="bool"), x=tensor(10)).modules
    kernels = [call["cost"] for call in module.observed["calls"] if call["call"] == "kernel"]
    assert [(each["read"], each["written"]) for each in kernels] == [(40, 40), (40, 40)]
