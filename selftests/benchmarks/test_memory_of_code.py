"""benchmarks/memory_of_code.py: the fact memory is what the allocator of the CPU counts, also with subgraphs."""

from __future__ import annotations

import contextlib
import sys

import pytest
import torch
from suites import NATIVE, REPOSITORY

from conformance import case, tensor
from conformance.compiler.compiler import compiler_here

sys.path.insert(0, str(REPOSITORY / "benchmarks"))

import memory_of_code


@torch.compiler.nested_compile_region
def region(x):
    return ((x @ x).sin() @ x).cos()


def branches(x, first):
    """Both need as much. Where the code computes the condition itself, one of them has it longer than the other."""
    y = x.sin()
    return torch.cond(first, lambda y: (y @ y).sin() @ y, lambda y: (y @ y).cos() @ y, (y,)) + 1


@torch.compiler.nested_compile_region
def region_with_branches(x, first):
    return torch.cond(first, lambda x: (x @ x).sin() @ x, lambda x: (x @ x).cos() @ x, (x,)) @ x


FUNCTIONS = {
    "no subgraph": lambda x, _: (x @ x).sin() @ x,
    "region": lambda x, _: region(region(x)) + 1,
    "results": lambda x, _: (region(region(x + 1)), region(x) @ x),
    "branches": branches,
    "branches in a region": lambda x, first: region_with_branches(region_with_branches(x.sin(), first), first),
}


@pytest.mark.skipif(not NATIVE, reason="no cpu target is native")
@pytest.mark.parametrize("grad", ["", "x"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_fact_is_what_the_allocator_counts(name, grad):
    function = FUNCTIONS[name]

    def test_it(x, first):
        return function(x, first)

    (declared,) = case(x=tensor(50, 50), first=tensor(1, dtype="bool"), **({"grad": grad} if grad else {}))(
        test_it
    ).cases
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()
        with compiler.generate(declared, compiler.target(NATIVE), run=True) as result:
            result.build()
            assert not memory_of_code.differences(result.capture, result.compiled, declared, "cpu")
            assert len(result.capture.modules) == (2 if grad else 1)
