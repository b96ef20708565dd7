"""Options of Inductor that a user types: how they are read, and what is wrong with them."""

from __future__ import annotations

import pytest

from conformance.capture.compiler_options import problem_of
from conformance.settings import SettingsError, config_text, parse_inductor_config


def test_values():
    read = parse_inductor_config(["max_autotune=True,max_autotune_gemm_backends=ATEN,TRITON", "cpp.threads=1"])
    assert read == {"max_autotune": True, "max_autotune_gemm_backends": "ATEN,TRITON", "cpp.threads": 1}
    text = config_text(read | {"cuda.arch": "90", "x": (1, 2), "y": None})
    assert (
        text
        == "max_autotune=True,max_autotune_gemm_backends='ATEN,TRITON',cpp.threads=1,cuda.arch='90',x=(1, 2),y=None"
    )
    assert parse_inductor_config([text]) == read | {"cuda.arch": "90", "x": (1, 2), "y": None}


@pytest.mark.parametrize("text", ["", "a", "a=", "=1", "a=1,a=2"])
def test_refused_texts(text):
    with pytest.raises(SettingsError, match=r"write KEY=VALUE|two values, 1 and 2: give one"):
        parse_inductor_config([text])


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("max_autotune", True, ""),
        ("cpp.threads", 1, ""),
        ("triton.multi_kernel", 3, ""),
        ("dynamo.capture_scalar_outputs", True, ""),
        ("cudagraphs", True, "torch has no option 'cudagraphs'; nearest: triton.cudagraphs"),
        ("triton.multi_kernel", 5, "triton.multi_kernel takes one of 0, 1, 2, 3, and 5 is a whole number"),
        ("cpp.threads", True, "cpp.threads takes a whole number, and True is a truth value"),
        ("cuda.arch", 90, "cuda.arch takes text or None, and 90 is a whole number; write cuda.arch='90'"),
    ],
)
def test_problems(name, value, problem):
    found = problem_of(name, value)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)
