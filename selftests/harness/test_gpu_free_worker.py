"""Beside a real gpu, what is for another target is captured and emulated by a process that sees none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from conformance.capture.emulation.errors import NotEmulatedError
from conformance.cases.loader import cases_in
from conformance.cli.main import main
from conformance.devices import environment, machine
from conformance.devices.targets import targets
from conformance.harness.gpu_free_worker import Companion

pytestmark = pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed: pip install triton")

FILE = """
import torch
from conformance import case, tensor

@case(x=tensor(20))
def test_sine(x):
    return x.sin()

@case(x=tensor(20))
def test_wrong(x):
    return x.cos() if torch.compiler.is_compiling() else x.sin()

@case(x=tensor(20, 20), config={"wrapped": {"cpp_wrapper": True}})
def test_wrapped(x):
    return x.sin()
"""


@pytest.fixture
def beside_a_gpu(tmp_path, monkeypatch):
    """A test file, on a machine that says it has an xpu."""
    (tmp_path / "test_mine.py").write_text(FILE)
    monkeypatch.setattr(machine, "_gpus", lambda: {"xpu": {"capability": [0, 0], "properties": {"name": "pretended"}}})
    return tmp_path / "test_mine.py"


def test_show_numerics(beside_a_gpu: Path, capsys):
    assert main(["show", f"{beside_a_gpu}::mine/sine", "--target", "cuda_sm90", "--facts", "--numerics"]) == 0
    said = capsys.readouterr().out
    assert "\nnumerics    right (emulated): " in said
    assert " tensors compared; nearest to the limit: " in said


def test_what_the_companion_found(beside_a_gpu: Path):
    cases, target = cases_in(beside_a_gpu), targets()["cuda_sm90"]
    right, wrong, wrapped = (cases[f"mine/{name}"] for name in ("sine", "wrong", "wrapped-wrapped"))
    with contextlib.closing(Companion()) as companion:
        _, outcome = companion.capture(right, target, emulate=True)
        assert " tensors compared" in outcome()[0]
        _, outcome = companion.capture(wrong, target, emulate=True)
        with pytest.raises(AssertionError, match="off") as raised:
            outcome()
        assert type(raised.value).__name__ == "NumericsError"
        _, outcome = companion.capture(wrapped, target, emulate=True)
        with pytest.raises(NotEmulatedError, match=r"a C\+\+ wrapper"):
            outcome()
        _, outcome = companion.capture(right, target)
        assert outcome() == []
