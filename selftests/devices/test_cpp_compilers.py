"""The compilers that people have: each runs kernels natively, or one sentence says what it lacks."""

from __future__ import annotations

import shutil

import pytest
from suites import NATIVE, Suite

from conformance.devices.cpp_compiler import compiler_problem, openmp_problem

COMPILERS = [f"g++-{version}" for version in range(11, 16)] + [f"clang++-{version}" for version in range(16, 21)]

CASES = """
import torch
from conformance import case, tensor

@case(x=tensor(64, 80, dtype=["f32", "bf16"]), require={"all": {"vectorised": "yes"}})
def test_scaled(x):
    return x.exp() * 2

@case(x=tensor(64, 80))
def test_reduced(x):
    return x.amax(-1), x.argmax(0)

@case(x=tensor(20), index=tensor(7, dtype="i64", low=20, high=30), numerics={"raises": "RuntimeError"})
def test_outside(x, index):
    return x.gather(0, index)
"""


@pytest.mark.long("it compiles kernels with each installed compiler, in an empty cache")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_kernels_of(compiler, tmp_path, monkeypatch):
    """CI's machines have several of them; others are skipped."""
    monkeypatch.setenv("CXX", compiler)
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    if problem := compiler_problem():
        pytest.skip(problem)
    suite = Suite(tmp_path)
    suite.write("ops/test_it.py", CASES)
    ran = suite.run("--target", NATIVE, "--checks", "numerics,requirements", "--fresh", timeout=600)
    ran.ends(0).has("numerics passed: 4 native", "4 items = 4 passed")


def test_a_compiler_without_openmp(tmp_path, monkeypatch):
    compiler = tmp_path / "clang++"
    compiler.write_text("#!/bin/sh\ncat > /dev/null\necho 'omp.h file not found' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert compiler_problem().startswith(f"{compiler} has no OpenMP, which each kernel needs: install that of its")


def test_gcc_brings_openmp_and_is_not_asked():
    assert openmp_problem("/nowhere/g++-11") == ""
