"""Modules that a file of cases needs only on some targets."""

from __future__ import annotations

import json.decoder
import subprocess
import sys

import pytest

from conformance import optional_module

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # an import raises ModuleNotFoundError
from conformance.cases.lookup import package_cases
print(sum(case.id.startswith("triton_kernel/") for case in package_cases().cases))
"""


def test_what_is_installed():
    assert optional_module("json.decoder") is json.decoder


def test_stand_in():
    absent = optional_module("no_such_package.language")

    @absent.autotune(configs=[absent.Config({"BLOCK": 64})], key=["n"])
    @absent.jit
    def kernel(x, BLOCK: absent.constexpr):  # noqa: N803 - as Triton's users name constants
        raise NotImplementedError

    with pytest.raises(ModuleNotFoundError, match="the package no_such_package is not installed"):
        kernel[(1,)](1, BLOCK=64)
    assert not hasattr(kernel, "__wrapped__")


@pytest.mark.parametrize("text", ["import another_package_that_is_missing", "import optional_package.missing"])
def test_another_module_is_missing(tmp_path, monkeypatch, text):
    """An installed package that is broken is an error."""
    (tmp_path / "optional_package.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "optional_package", raising=False)
    with pytest.raises(ModuleNotFoundError, match="missing"):
        optional_module("optional_package")


def test_each_file_of_cases_can_be_imported_without_triton():
    ran = subprocess.run([sys.executable, "-c", WITHOUT_TRITON], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 1
