"""The script of a minimised program: each call gets what the first one was given, options are written where needed."""

from __future__ import annotations

import pytest
import torch

from conformance.minimisation import script
from conformance.minimisation.failure import Failure
from conformance.minimisation.minimiser import Minimised
from conformance.minimisation.program import Program, Step
from conformance.numerics.problem import Problem, WrongValues

WRONG = Problem("output", "values", "wrong", "first", WrongValues({"number → number": 1}, 0.5, 2.0), 9.0, 1e6)


def written(folder, expression, device="cpu", **options):
    program = Program({"x0": torch.full((3,), 2.0)}, (Step("v0", expression),), ("v0",))
    minimised = Minimised(program, WRONG, Failure.of(WRONG), "inductor", 1, "", 1, 0.0)
    made = script.write(folder / "script.py", minimised, "title", device=device, options=options)
    return made, (folder / "script.py").read_text()


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.setattr(script, "run", lambda _file: (False, "it ends without an error"))


@pytest.mark.usefixtures("runs")
def test_what_is_written_to_is_copied(tmp_path):
    assert "program(x0.detach().clone())" in written(tmp_path, "x0.mul_(2)")[1]
    assert "clone" not in written(tmp_path, "x0.mul(2).add_(1)")[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the script runs where the device is")
def test_options_are_written_where_the_script_does_not_run(tmp_path):
    made, text = written(tmp_path, "x0 * 2", "cuda", memory_planning=True)
    assert made.shows is None
    assert "torch._inductor.config.memory_planning = True" in text


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(12.0).view(3, 4),
        torch.arange(12.0).view(3, 4).t(),
        torch.arange(12.0)[5:],
        torch.arange(12, dtype=torch.int16).view(3, 4)[1:, ::2],
        torch.ones(12)[3:].requires_grad_(),
    ],
)
def test_an_input_is_written_with_its_place_in_memory(value):
    written = eval(script._tensor_text("x", value, "cpu", {}))  # noqa: S307 - text of our own
    assert torch.equal(written, value)
    assert (written.dtype, written.stride(), written.storage_offset()) == (
        value.dtype,
        value.stride(),
        value.storage_offset(),
    )
    assert written.requires_grad == value.requires_grad
