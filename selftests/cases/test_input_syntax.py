"""The syntax of --input: tensors, constants, expressions and files, and what is refused."""

from __future__ import annotations

import pytest
import torch

from conformance.cases.input_syntax import InputError, parse_input


def value_of(text: str, seed: int = 0):
    """The value of `x=…`."""
    name, value = parse_input(f"x={text}")
    assert name == "x"
    argument = value.argument
    return argument.build(value.choice, 0, seed) if hasattr(argument, "build") else argument


@pytest.mark.parametrize(
    ("text", "shape", "stride", "dtype"),
    [
        ("3x224x224:u8", (3, 224, 224), (50176, 224, 1), torch.uint8),
        ("20:f32", (20,), (1,), torch.float32),
        ("64x1000", (64, 1000), (1000, 1), torch.float32),
        ("scalar:bf16", (), (), torch.bfloat16),
        ("1x3x8x8:u8:channels_last", (1, 3, 8, 8), (192, 1, 24, 3), torch.uint8),
        ("3x8x8:channels_last", (3, 8, 8), (1, 24, 3), torch.float32),
        ("3x8:transposed:f16", (3, 8), (1, 3), torch.float16),
        ("3x8:sliced", (3, 8), (30, 1), torch.float32),
        ("0x10", (0, 10), (10, 1), torch.float32),
        ("torch.randn(3, 4)[:, 1:]", (3, 3), (4, 1), torch.float32),
    ],
)
def test_tensors(text, shape, stride, dtype):
    value = value_of(text)
    assert (value.shape, value.stride(), value.dtype) == (shape, stride, dtype)
    assert torch.equal(value, value_of(text))
    if value.numel():
        assert not torch.equal(value, value_of(text, seed=1))


def test_a_range():
    value = value_of("1000:f32:low=2:high=3")
    assert (2 <= value.min() < 2.1, 2.9 < value.max() <= 3) == (True, True)


@pytest.mark.parametrize(
    ("text", "value"),
    [("20", 20), ("0.5", 0.5), ("'mean'", "mean"), ("[0, -1]", [0, -1]), ("None", None), ("torch.uint8", torch.uint8)],
)
def test_constants(text, value):
    assert value_of(text) == value


def test_a_file(tmp_path):
    torch.save(torch.arange(6).reshape(2, 3).T, tmp_path / "x.pt")
    value = value_of(f"{tmp_path}/x.pt")
    assert (value.tolist(), value.stride()) == ([[0, 3], [1, 4], [2, 5]], (1, 3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", r"write NAME=VALUE, such as x=1x3x224x224:u8:channels_last"),
        ("2x=3", r"write NAME=VALUE, such as x="),
        (
            "x=3x4:f31",
            r"'f31' is neither a dtype \(f64, .* nor a layout \(contiguous, .* nor a range \(low=0, high=1\)",
        ),
        ("x=3x4:diagonal", "'diagonal' is neither a dtype"),
        ("x=3x4:f32:u8", "dtype has two values, f32 and u8; leave one out"),
        ("x=3x4:low=a", "'low=a' must be a number, such as low=0.5"),
        ("x=3x4:channels_last", "channels_last needs 3 or 4 dimensions, such as 3x224x224 or 1x3x224x224; 3x4 has 2"),
        ("x=4:f32:sliced", "sliced needs 2 dimensions or more; 4 has 1"),
        ("x=mean", r"NameError: name 'mean' is not defined; a value is a shape \(3x224x224\), a Python literal"),
        ("x=none.pt", "none.pt: No such file or directory"),
    ],
)
def test_a_wrong_input(text, said):
    with pytest.raises(InputError, match=f"^--input '{text}': .*{said}"):
        parse_input(text)
