"""Explanations: their texts, when they are skipped, and when a literal is rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from suites import run_python

from conformance import case, explanation, tensor
from conformance.cases.case import CaseError
from conformance.devices import environment
from conformance.devices.environment import PreparationError
from conformance.devices.targets import TargetError
from conformance.devices.torch_releases import STRICT
from conformance.storage.snapshots import torch_release

on_baseline = pytest.mark.skipif(
    torch_release(environment.torch_build().version) != STRICT, reason=f"written for torch {STRICT}"
)

FILE = '''
from expecttest import assert_expected_inline
from conformance import case, explanation, tensor


@case(x=tensor(20), dtype=["f32"])
def test_sine(x):
    return x.sin()


def test_story_one():
    assert_expected_inline(explanation(test_sine, "f32", target="cpu_avx2").facts.splitlines()[0], """before""")


def test_story_two():
    assert_expected_inline(explanation(test_sine, "f32", target="cpu_avx512").facts.splitlines()[0], """before""")
'''
ACCEPTED = '"""kernels       1: sin (pointwise 20, serial)"""'


@case(x=tensor(20), dtype=["f32", "f64"], grad=[False, True])
def test_sine(x):
    return x.sin()


sine = test_sine  # under a name that pytest does not collect
del test_sine


@on_baseline
def test_what_an_explanation_holds():
    found = explanation(sine, "f32-forward", target="cpu_avx2")
    assert found.facts.startswith("kernels       1: sin (")
    assert "# kernel cpp_fused_sin_0\n" in found.code
    assert "vectorised" not in found.code
    assert "torch.ops.aten.sin.default" in found.graph
    assert "tangents" not in found.graph


@on_baseline
def test_with_gradients_the_graph_is_the_joint_one():
    found = explanation(sine, "f32-backward", target="cpu_avx2")
    assert "tangents" in found.graph
    assert "torch.ops.aten.cos.default" in found.graph
    assert found.code.count("def call(args):") == 2


def test_unknown_names():
    with pytest.raises(
        CaseError, match=r"test_sine has no case 'f16'; it has f32-forward, f32-backward, f64-forward, "
    ):
        explanation(sine, "f16", target="cpu_avx2")
    with pytest.raises(CaseError, match="'test_unknown_names' is not decorated with @case"):
        explanation(test_unknown_names, "f32", target="cpu_avx2")
    with pytest.raises(TargetError, match="unknown target 'cpu_avx3'; known are"):
        explanation(sine, "f32-forward", target="cpu_avx3")


def test_on_another_torch_it_is_skipped(monkeypatch):
    monkeypatch.setattr(environment, "torch_build", lambda: environment.TorchBuild("2.14.1+cpu", (), Path()))
    with pytest.raises(pytest.skip.Exception, match=f"written for torch {STRICT}"):
        explanation(sine, "f32-forward", target="cpu_avx2")


def test_what_cannot_be_generated_is_skipped_in_a_test_and_raised_elsewhere(monkeypatch):
    monkeypatch.setattr(environment, "triton_version", lambda: "")
    if torch_release(environment.torch_build().version) == STRICT:
        with pytest.raises(pytest.skip.Exception, match="Triton is not installed"):
            explanation(sine, "f32-forward", target="xpu_pvc")
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(PreparationError, match="Triton is not installed"):
        explanation(sine, "f32-forward", target="xpu_pvc")


def pytest_on(folder, *options, accept):
    """Runs pytest in a folder with FILE in it. Returns its output, and the text of the file afterwards."""
    file = folder / "test_explained.py"
    file.write_text(FILE)
    (folder / "conftest.py").write_text('pytest_plugins = ["conformance.plugin"]\n')
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-k", "story", *options)
    result = run_python(*words, folder=folder, env={"EXPECTTEST_ACCEPT": accept})
    return result.stdout, file.read_text()


@on_baseline
def test_zero_does_not_accept(tmp_path):
    out, left = pytest_on(tmp_path, "-n", "0", accept="0")
    assert left == FILE
    assert "2 failed" in out
    assert "accept it with: EXPECTTEST_ACCEPT=1 pytest -n 0 'test_explained.py::test_story_one'" in out
    assert "expecttest/__init__.py" not in out


@on_baseline
def test_workers_do_not_accept(tmp_path):
    out, left = pytest_on(tmp_path, "-n", "2", accept="1")
    assert left == FILE
    assert "accept it with: EXPECTTEST_ACCEPT=1 pytest -n 0 'test_explained.py::test_story_two'" in out


@on_baseline
def test_one_process_accepts(tmp_path):
    out, left = pytest_on(tmp_path, "-n", "0", accept="1")
    assert "2 passed" in out
    assert left == FILE.replace('"""before"""', ACCEPTED)
