"""A compiler that links its C++ library into each kernel is found before an exception ends the process."""

from __future__ import annotations

import shutil
import stat

import pytest

from conformance.devices.cpp_compiler import DEFAULT_COMPILER
from conformance.devices.cpp_exceptions import exceptions_problem

pytestmark = pytest.mark.skipif(shutil.which(DEFAULT_COMPILER) is None, reason="there is no C++ compiler")


@pytest.mark.parametrize(
    ("option", "says"), [("", ""), ("-static-libstdc++", "an exception of a kernel ends the process")]
)
def test_the_library_of_kernels(tmp_path, monkeypatch, option, says):
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec {shutil.which(DEFAULT_COMPILER)} {option} "$@"\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(compiler))
    problem = exceptions_problem.__wrapped__()
    assert bool(problem) == bool(says)
    assert says in problem


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert exceptions_problem.__wrapped__() == ""
