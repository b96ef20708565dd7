"""Simpler inputs of every dtype and shape: each way to simplify, and the text of the script."""

from __future__ import annotations

import math

import pytest
import torch

from conformance.minimisation import script
from conformance.minimisation.input_reduction import simpler_inputs
from conformance.minimisation.program import Program, Step

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.bool,
    torch.int8,
    torch.int64,
    torch.uint16,
)
SHAPES = ((), (0,), (1,), (3, 0), (0, 1), (1, 0, 1), (1, 1), (3, 4), (2, 1, 3))


def program(**inputs):
    return Program(inputs, (Step("a", "x + 1"),), ("a",))


def simplified(made):
    return [(way.__name__, simpler) for way in simpler_inputs() for simpler in way(made)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_dtype_and_shape(dtype, shape):
    value = torch.linspace(-3, 3, math.prod(shape)).reshape(shape).to(dtype)
    values = [value, torch.stack([value, value])[1]]  # the second with an offset in its storage
    values += [value.mT] if value.dim() > 1 else []
    for each in values:
        for way, simpler in simplified(program(x=each, y=torch.rand(3))):
            assert way in ("in_float32", "fewer_dimensions") or simpler.inputs["x"].dim() == each.dim()
            assert bool(simpler.inputs["x"].numel()) == bool(each.numel())
            simplified(simpler)
        made = eval(script._tensor_text("x", each, "cpu", {}), {"torch": torch})  # noqa: S307
        assert (made.dtype, made.shape) == (each.dtype, each.shape)


def test_a_program_without_inputs():
    assert simplified(program()) == []


def test_complex_values_that_are_no_expression_go_into_a_file():
    assert not script._is_written(torch.tensor([complex(math.nan, math.inf)]))
    assert script._is_written(torch.tensor([1j, 2j]))
