"""The scripts that failing items leave: each shows its failure with torch alone, and passes without the fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from suites import NATIVE, section
from suites import PreloadedSuite as Suite

CASES = """
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from conformance import case, group, module, tensor

FACTOR = 2

def doubled(x):
    return x * FACTOR

# Two checks fail: the second one must not remove the script of the first one.
@case(
    x=tensor(7, 9, low=1, high=2, layout="transposed"),
    to=torch.float32,
    also_negative=lambda x: (x, torch.neg(x)),
    require={"all": {"kernels": 3}},
)
def test_values(x, to, also_negative):
    return also_negative(doubled(x).to(to))[0]

@case(x=tensor(64), dynamic=True)
def test_special(x):
    return x.floor()

@case(x=tensor(3, 4, 5))
def test_second(x):
    return x + 1

@case(x=tensor(64), grad="x")
def test_gradient(x):
    return x.exp()

@case(x=tensor(5, 6), y=tensor(6), grad="x")
def test_strides(x, y):
    return (x - y).relu()

@case(x=tensor(64), y=tensor(64))
def test_mutation(x, y):
    x.copy_(x.cos())
    return y + 1

@case(x=tensor(64))
def test_dtype(x):
    return x.ceil()

@case(x=tensor(64))
def test_exception(x):
    return x.sin()

@case(x=tensor(64), require={"all": {"kernels": 3}})
def test_kernels(x):
    return x + 1

class Net(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 6)
        self.register_buffer("mean", torch.zeros(features))

    def forward(self, x):
        self.mean.copy_(x.mean(0).cos())
        return self.linear(x)

@case(net=module(Net, 5, training=False), x=tensor(7, 5), dtype="f32", grad="net")
def test_module(net, x):
    return net(x)

@dataclass
class Batch:
    x: Any
    parts: Any

@case(batch=group(Batch(tensor(64), [tensor(3), 2.0])), nets=group({"one": module(lambda: nn.Sequential(nn.ReLU()))}))
def test_collections(batch, nets):
    batch.parts[0] = nets["one"](batch.x.cos()) * 1.0
    return {"result": batch.parts[1]}

@case(x=tensor(64), by=SimpleNamespace(factor=2))
def test_object(x, by):
    return x * by.factor
"""

#: Faults of Inductor. Importing the module plants them.
PLANTED = """
import torch
from torch._inductor import lowering
from torch._inductor.output_code import CompiledFxGraph

aten = torch.ops.aten
mul, add, floor, ceil, neg, where, ne = (
    lowering.lowerings[each]
    for each in (
        aten.mul.Tensor,
        aten.add.Tensor,
        aten.floor.default,
        aten.ceil.default,
        aten.neg.default,
        aten.where.self,
        aten.ne.Tensor,
    )
)


def refused(x):
    raise RuntimeError("planted: sin is refused")


def called(graph, inputs, call=CompiledFxGraph.__call__):
    outputs = call(graph, inputs)
    if graph.fx_kwargs.get("is_backward"):  # gradients of two dimensions are transposed
        return [each if each is None or each.dim() != 2 else each.mT.contiguous().mT for each in outputs]
    if all(each is not None and each.dim() == 3 for each in outputs):  # each call returns what the first one did
        return graph.__dict__.setdefault("planted", outputs)
    return outputs


lowering.lowerings[aten.mul.Tensor] = lambda a, b: add(mul(a, b), 1)
lowering.lowerings[aten.floor.default] = lambda a: where(ne(a, a), 0.0, floor(a))
lowering.lowerings[aten.ceil.default] = lambda a: lowering.to_dtype(ceil(a), torch.float64)
lowering.lowerings[aten.cos.default] = neg
lowering.lowerings[aten.sin.default] = refused
CompiledFxGraph.__call__ = called
"""

#: Takes the name out of the environment: Inductor starts Python for each instruction set, and must not plant there.
SITE = """
import os, sys

sys.modules["conformance"] = None
if os.environ.pop("PLANT", ""):
    import planted
"""

CONFTEST = """
pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    import planted
"""

#: Name of a case → what the message of its script begins with.
SHOWN = {
    "values": "first call: output: values: 63 of 63 elements are wrong; the first at [0, 0]: compiled ",
    "special": "special values (nan: NaN): output: values: ",
    "second": "second call, with other values: output: values: 60 of 60 elements are wrong",
    "gradient": "first call: gradient of x: values: ",
    "strides": "first call: gradient of x: strides: they are (1, 5), eager's are (6, 1)",
    "mutation": "first call: x after the call: values: ",
    "dtype": "first call: output: dtype: it is torch.float64, eager's is torch.float32",
    "exception": "first call: raises: compiled raised ",
    "module": "first call: net.mean after the call: values: 5 of 5 elements are wrong",
    "collections": "first call: batch.parts[0] after the call: values: ",
}
#: Runs scripts in one process. Prints as JSON of each: its path, how it ended, what it printed.
RUN_ALL = """
import contextlib, io, json, runpy, sys, traceback

for script in sys.argv[1:]:
    status = 0
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            status = end.code
        except AssertionError:
            status = 1
            traceback.print_exc()
    print(json.dumps([script, status, printed.getvalue()]))
"""
PASSED = "compiled does what eager does\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which all items fail."""
    suite = Suite(tmp_path_factory.mktemp("suite"), CONFTEST)
    suite.write("ops/test_planted.py", CASES)
    suite.write("planted.py", PLANTED)
    ran = suite.accept("--target", f"{NATIVE},cuda_sm90", "--fresh", "-k", "not cuda or values").ends(1)
    return suite, ran


@pytest.fixture(scope="module")
def failures(run):
    """The folder with the artifacts of the failed items."""
    suite, _ = run
    return suite.root / ".conformance/runs/last/failures/planted"


def run_python(*arguments: object, folder, planted: bool) -> subprocess.CompletedProcess[str]:
    """Runs Python where `conformance` cannot be imported, although it is installed. `folder`: an empty one."""
    (folder / "planted.py").write_text(PLANTED)
    (folder / "sitecustomize.py").write_text(SITE)
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "TORCHINDUCTOR_COMPILE_THREADS": "1", "PLANT": "1" * planted},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_the_suite_cannot_be_imported(tmp_path):
    ran = run_python("-c", "import conformance", folder=tmp_path, planted=False)
    assert ran.returncode == 1
    assert "ModuleNotFoundError: " in ran.stderr


def script_of(failures, name, target=NATIVE) -> str:
    return str(failures / f"{name}-{target}" / "reproduce.py")


def run_all(*scripts, folder, planted) -> dict[str, tuple[int, str]]:
    """Script → its status and what it printed. One process runs all: importing and compiling are slow."""
    ran = run_python("-c", RUN_ALL, *scripts, folder=folder, planted=planted)
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    return {script: (status, printed) for script, status, printed in found}


@pytest.fixture(scope="module")
def with_faults(failures, tmp_path_factory) -> dict[str, tuple[int, str]]:
    scripts = [*(script_of(failures, name) for name in SHOWN), script_of(failures, "values", "cuda_sm90")]
    return run_all(*scripts, folder=tmp_path_factory.mktemp("planted"), planted=True)


@pytest.mark.long("its fixture makes each failure, and each script is a process that imports torch")
@pytest.mark.parametrize("name", SHOWN)
def test_a_script_shows_its_failure(failures, with_faults, name):
    script = script_of(failures, name)
    assert "conformance" not in Path(script).read_text()
    status, printed = with_faults[script]
    assert f"\nAssertionError: compiled differs from eager\n{SHOWN[name]}" in printed, printed
    assert status == 1


@pytest.mark.long("its fixture makes each failure, and each script is a process that imports torch")
def test_a_script_that_shows_its_failure_ends_with_status_1(failures, tmp_path):
    ran = run_python(script_of(failures, "values"), folder=tmp_path, planted=True)
    assert ran.returncode == 1, ran.stderr
    assert f"\nAssertionError: compiled differs from eager\n{SHOWN['values']}" in ran.stderr, ran.stderr


@pytest.mark.long("its fixture makes each failure, and each script is a process that imports torch")
def test_the_script_of_an_exception_shows_where_compiling_fails(failures, with_faults):
    assert 'raise RuntimeError("planted: sin is refused")' in with_faults[script_of(failures, "exception")][1]


@pytest.mark.long("its fixture makes each failure, and each script is a process that imports torch")
def test_scripts_pass_without_the_faults(failures, tmp_path):
    """But one whose inputs are gone compares nothing."""
    moved = tmp_path / "reproduce.py"
    moved.write_text(Path(script_of(failures, "values")).read_text())
    scripts = [script_of(failures, name) for name in SHOWN]
    found = run_all(*scripts, moved, folder=tmp_path, planted=False)
    missing = f"nothing was compared: {tmp_path / 'inputs.pt'} is missing: it holds the inputs\n"
    assert found == dict.fromkeys(scripts, (0, PASSED)) | {str(moved): (2, missing)}


@pytest.mark.long("its fixture makes each failure, and each script is a process that imports torch")
def test_the_script_for_a_missing_gpu(run, failures, with_faults):
    folder = failures / "values-cuda_sm90"
    text = (folder / "reproduce.py").read_text()
    assert "Needs torch, Triton and a real GPU (cuda)" in text.partition("import")[0]
    assert 'reproduce(test_values, arguments, "cuda", ' in text
    assert "from conformance.cli.main import main" in (folder / "reproduce_with_suite.py").read_text()
    message = section(run[1], "test_values[cuda_sm90] [numerics (emulated)]")
    [line] = [line for line in message if line.startswith("to reproduce: python ")]
    assert line.endswith("reproduce_with_suite.py (with torch alone, on a real GPU (cuda): reproduce.py beside it)")
    if not torch.cuda.is_available():
        status, printed = with_faults[script_of(failures, "values", "cuda_sm90")]
        assert status == 2
        assert printed.endswith(" finds no cuda here; reproduce_with_suite.py needs none\n")


@pytest.mark.long("its fixture makes each failure, and each script is a process that imports torch")
def test_the_message_says_how_to_run_the_script(run, failures):
    _, ran = run
    for title in (f"test_values[{NATIVE}] [numerics]", f"test_exception[{NATIVE}]"):
        item = title.partition("[")[0].removeprefix("test_")
        [line] = [line for line in section(ran, title) if "to reproduce with torch alone: " in line]
        script = line.rpartition(" python ")[2]
        assert Path(script).samefile(failures / f"{item}-{NATIVE}" / "reproduce.py")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kernels", "the failure is not one of the numerics, and only the suite finds it"),
        ("object", "an argument is a SimpleNamespace that cannot be written as source"),
    ],
)
def test_a_script_that_needs_the_suite_says_why(run, failures, name, reason):
    first, second, *_ = (failures / f"{name}-{NATIVE}" / "reproduce.py").read_text().splitlines()
    assert first == f"# This script needs conformance: {reason}."
    assert second.startswith(f'"""Compiles planted/{name} for {NATIVE}')
    if name == "object":
        run[1].has(f"/planted/object-{NATIVE}/reproduce.py (it needs conformance: {reason})")
