"""On a machine with a GPU, the GPU-free worker captures and emulates cases for other targets."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from conformance.capture.emulation.errors import NotEmulatedError
from conformance.cases.loader import cases_in
from conformance.cli.main import main
from conformance.compiler import gpu_free_worker
from conformance.compiler.case_request import CaseRequest
from conformance.compiler.gpu_free_worker import GpuFreeWorker, GpuFreeWorkerError
from conformance.devices import environment, machine
from conformance.devices.targets import targets
from conformance.generated.capture_texts import code_text

pytestmark = pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed: pip install triton")

#: The worker alone runs this: it hides all GPUs.
BROKEN = """
import os, sys, time

if os.environ.get("ONEAPI_DEVICE_SELECTOR") == "opencl:cpu":
    print("last words", file=sys.stderr, flush=True)
    {do}
"""

FILE = """
import torch
from conformance import case, tensor

@case(x=tensor(20))
def test_sine(x):
    return x.sin()

@case(x=tensor(20))
def test_wrong(x):
    return x.cos() if torch.compiler.is_compiling() else x.sin()

@case(x=tensor(20), numerics={"without": {"nan": "NaN is replaced", "huge": "a habit"}})
def test_opted_out(x):
    return torch.nan_to_num(x, 0, torch.inf, -torch.inf) if torch.compiler.is_compiling() else x * 1

@case(x=tensor(20, 20), config={"wrapped": {"cpp_wrapper": True}})
def test_wrapped(x):
    return x.sin()
"""


@pytest.fixture
def beside_a_gpu(tmp_path, monkeypatch):
    """A test file, on a machine that seems to have an xpu."""
    (tmp_path / "test_mine.py").write_text(FILE)
    monkeypatch.setattr(machine, "_gpus", lambda: {"xpu": {"capability": [0, 0], "properties": {"name": "pretended"}}})
    return tmp_path / "test_mine.py"


def test_show_numerics(beside_a_gpu: Path, capsys):
    assert main(["show", f"{beside_a_gpu}::mine/sine", "--target", "cuda_sm90", "--facts", "--numerics"]) == 0
    output = capsys.readouterr().out
    assert "\nnumerics    right (emulated): " in output
    assert " tensors compared; nearest to the limit: " in output


def test_show_nodes(beside_a_gpu: Path, capsys):
    assert main(["show", f"{beside_a_gpu}::mine/sine", "--target", "cuda_sm90", "--ir"]) == 0
    assert "op0: SchedulerNode(ComputedBuffer)" in capsys.readouterr().out


def test_numerics_of_the_gpu_free_worker(beside_a_gpu: Path):
    cases, target = cases_in(beside_a_gpu), targets()["cuda_sm90"]
    right, wrong, wrapped = (cases[f"mine/{name}"] for name in ("sine", "wrong", "wrapped-wrapped"))
    with contextlib.closing(GpuFreeWorker()) as worker:
        captured = worker.capture(CaseRequest(right, target, emulate=True))
        assert " tensors compared" in captured.worker_numerics()[0]
        [kernel] = captured.extents().kernels
        assert re.fullmatch(r"triton_poi_fused_\w+: \d+ programs", kernel)
        assert not captured.extents().shortfalls
        assert [(each["tensor"], bool(each["buckets"])) for each in captured.error_profiles] == [("output", True)]
        outcome = worker.capture(CaseRequest(wrong, target, emulate=True)).worker_numerics
        with pytest.raises(AssertionError, match="20 of 20 elements are wrong") as raised:
            outcome()
        assert type(raised.value).__name__ == "NumericsError"
        if environment.torch_build().release >= (2, 13):  # before, a C++ wrapper for cuda needs the device
            outcome = worker.capture(CaseRequest(wrapped, target, emulate=True)).worker_numerics
            with pytest.raises(NotEmulatedError, match=r"a C\+\+ wrapper"):
                outcome()
        captured = worker.capture(CaseRequest(right, target))
        assert (captured.worker_numerics, captured.extents().kernels) == (None, [])


@pytest.mark.long("it starts a worker that imports torch and captures")
def test_the_gpu_free_worker_judges_opt_outs(beside_a_gpu: Path):
    case, target = cases_in(beside_a_gpu)["mine/opted_out"], targets()["cuda_sm90"]
    with contextlib.closing(GpuFreeWorker()) as worker:
        assert not worker.capture(CaseRequest(case, target, emulate=True)).judgements
        judged = worker.capture(CaseRequest(case, target, emulate=True, audit=True)).judgements
    found = {each.opt_out.name: [(problem.call, problem.rule) for problem in each.problems] for each in judged}
    assert found == {"nan": [("nan", "values")], "huge": []}


@pytest.mark.long("it starts a worker that imports torch and captures")
def test_the_gpu_free_worker_shares_captures(beside_a_gpu: Path):
    cases = cases_in(beside_a_gpu)
    sm80, sm90, sm100 = (targets()[f"cuda_{name}"] for name in ("sm80", "sm90", "sm100"))

    def ask(case, target, **options):
        return worker.capture(CaseRequest(cases[f"mine/{case}"], target, texts=False, shares=True, **options))

    with contextlib.closing(GpuFreeWorker()) as worker:
        assert ask("sine", sm80).shared_with == ""
        alone = worker.capture(CaseRequest(cases["mine/sine"], sm90, texts=False))
        found = ask("sine", sm90)
        assert (alone.shared_with, found.shared_with) == ("", "cuda_sm80")
        assert found.capture.target == "cuda_sm90"
        assert found.capture.modules[0].graph == ""
        assert code_text(found.capture, sm90) == code_text(alone.capture, sm90)
        assert ask("sine", sm100, emulate=True).shared_with == ""  # no numerics have run
        first, other = (ask("sine", target, emulate=True) for target in (sm90, sm100))
        assert (first.worker_numerics(), first.extents()) == (other.worker_numerics(), other.extents())
        assert [ask("wrong", target, emulate=True).shared_with for target in (sm80, sm90)] == ["", ""]
        assert worker.capture(CaseRequest(cases["mine/sine"], sm90)).capture.modules[0].graph


@pytest.mark.long("it starts a worker that imports torch, and waits until its time limit")
@pytest.mark.parametrize(
    ("do", "reason"),
    [("os.abort()", "ended by SIGABRT"), ("time.sleep(99)", "no answer within 10 s")],
    ids=["crash", "hang"],
)
def test_a_worker_that_gives_no_answer(beside_a_gpu: Path, monkeypatch, do, reason):
    case = cases_in(beside_a_gpu)["mine/sine"]
    beside_a_gpu.write_text(BROKEN.format(do=do))
    monkeypatch.setattr(gpu_free_worker, "CAPTURE_LIMIT", 10.0 if "sleep" in do else 60.0)
    wanted = f"the GPU-free worker could not capture mine/sine for cuda_sm90: {reason}; the last lines of its stderr:\n"
    with contextlib.closing(GpuFreeWorker()) as worker:
        with pytest.raises(GpuFreeWorkerError) as raised:
            worker.capture(CaseRequest(case, targets()["cuda_sm90"]))
        assert str(raised.value).startswith(wanted)
        assert "last words" in str(raised.value)
