"""Sizes that no machine holds: code without their memory, the form that is compared, where other kernels begin."""

from __future__ import annotations

import contextlib
import resource

import pytest

from conformance.cases.axes import CaseError
from conformance.cases.lookup import cases_below
from conformance.compiler.compiler import compiler_here
from conformance.compiler.large_sizes import size_choices

CASES = """
from conformance import case, tensor

@case(x=tensor(2**36), compared_as={"x": (1032,)})
def test_wide(x):
    return x * 2 + 1

@case(x=tensor(8, 2**26), compared_as={"x": (8, 100)})
def test_other_kernels(x):
    return x.sum(1)

@case(x=tensor(3, 1000))
def test_rows(x):
    return x.sum(1)
"""
PERSISTENT = "1: sum (persistent reduction Nx[N])"


@pytest.fixture
def cases(tmp_path, monkeypatch):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_few.py").write_text(CASES)
    monkeypatch.chdir(tmp_path)
    return {each.name: each for each in cases_below([tmp_path / "test_few.py"])}


def test_code_needs_no_memory(cases, call):
    assert cases["wide"].build()["x"].shape == (1032,)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status, out, _ = call("show", "few/wide", "--target", "cuda_sm90", "--numerics")
    assert status == 0
    assert "pointwise 68719476736" in out  # 275 GB
    assert "compared as x=1032: the same kernels, with 32-bit indices" in out
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # in KiB


def test_a_form_with_other_kernels_fails(cases, call):
    status, out, _ = call("show", "few/other_kernels", "--target", "cuda_sm90", "--numerics")
    assert status == 1
    assert "compared as x=8x100, which has other kernels: 1: sum (reduction Nx[N], first half of a split); " in out


def test_the_size_from_which_on_there_is_another_kernel(cases, monkeypatch):
    monkeypatch.setattr("conformance.compiler.large_sizes.MOST", 3 * 2100)
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()
        lines = list(size_choices(compiler.capture, cases["rows"], compiler.target("cuda_sm90")))
    assert lines == [
        "3: the same kernels up to 6",
        f"from 1,025 in place of 1,000 on (3,075 elements): {PERSISTENT} → 1: sum (reduction Nx[N])",
    ]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ('{"y": (3,)}', "compared_as names 'y'; it takes the shapes of inputs: x, and 'config'"),
        ('{"x": 3}', r"compared_as: x.shape is 3: it must be a tuple of sizes: write \(3,\)"),
    ],
)
def test_a_wrong_form_is_refused(tmp_path, form, message):
    file = tmp_path / "test_wrong.py"
    file.write_text(CASES.replace('{"x": (1032,)}', form))
    with pytest.raises(CaseError, match=message):
        cases_below([file])
