"""The scripts that failing items leave: each shows its failure with torch alone, and passes without the fault."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from suites import NATIVE
from suites import PreloadedSuite as Suite

CASES = """
import torch

from conformance import case, tensor

FACTOR = 2

def doubled(x):
    return x * FACTOR

@case(x=tensor(7, 9, low=1, high=2, layout="transposed"), to=torch.float32, also_negative=lambda x: (x, -x))
def test_values(x, to, also_negative):
    return also_negative(doubled(x).to(to))[0]

@case(x=tensor(64), dynamic=True)
def test_special(x):
    return x.floor()

@case(x=tensor(5, 6), y=tensor(6), grad="x")
def test_strides(x, y):
    return (x - y).relu()

@case(x=tensor(64))
def test_exception(x):
    return x.sin()

@case(x=tensor(64), require={"all": {"kernels": 3}})
def test_kernels(x):
    return x + 1
"""

#: Faults of Inductor. Importing the module plants them.
PLANTED = """
import torch
from torch._inductor import lowering
from torch._inductor.output_code import CompiledFxGraph

aten = torch.ops.aten
mul, add, floor, where, ne = (
    lowering.lowerings[each]
    for each in (aten.mul.Tensor, aten.add.Tensor, aten.floor.default, aten.where.self, aten.ne.Tensor)
)


def refused(x):
    raise RuntimeError("planted: sin is refused")


def transposed_gradients(graph, inputs, call=CompiledFxGraph.__call__):
    outputs = call(graph, inputs)
    if not graph.fx_kwargs.get("is_backward"):
        return outputs
    return [each if each is None or each.dim() != 2 else each.mT.contiguous().mT for each in outputs]


lowering.lowerings[aten.mul.Tensor] = lambda a, b: add(mul(a, b), 1)
lowering.lowerings[aten.floor.default] = lambda a: where(ne(a, a), 0.0, floor(a))
lowering.lowerings[aten.sin.default] = refused
CompiledFxGraph.__call__ = transposed_gradients
"""

CONFTEST = """
pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    import planted
"""

#: Name of a case → what its script prints first.
SHOWN = {
    "values": "first call: output: values: 63 of 63 elements are wrong; the first at [0, 0]: compiled ",
    "special": "special values (nan: NaN): output: values: ",
    "strides": "first call: gradient of x: strides: they are (1, 5), eager's are (6, 1)",
    "exception": "first call: raises: compiled raised ",
}


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """The folder with the artifacts of the failed items."""
    suite = Suite(tmp_path_factory.mktemp("suite"), CONFTEST)
    suite.write("ops/test_planted.py", CASES)
    suite.write("planted.py", PLANTED)
    suite.accept("--target", f"{NATIVE},cuda_sm90", "--fresh", "-k", "not cuda or values").ends(1)
    return suite.root / ".conformance/runs/last/failures/planted"


def run_script(script, folder, *, planted: bool) -> subprocess.CompletedProcess[str]:
    """Runs a script where `conformance` cannot be imported. `folder`: an empty one."""
    folder.mkdir()
    (folder / "planted.py").write_text(PLANTED)
    lines = ["import sys", "sys.modules['conformance'] = None", *(["import planted"] if planted else [])]
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


@pytest.mark.parametrize("name", SHOWN)
def test_a_script_needs_only_torch(failures, tmp_path, name):
    script = failures / f"{name}-{NATIVE}" / "reproduce.py"
    assert "conformance" not in script.read_text()
    wrong = run_script(script, tmp_path / "wrong", planted=True)
    assert wrong.returncode == 1, wrong.stderr
    assert wrong.stdout.startswith(SHOWN[name]), wrong.stdout
    assert wrong.stdout.endswith("\ncompiled differs from eager\n")
    right = run_script(script, tmp_path / "right", planted=False)
    assert (right.returncode, right.stdout) == (0, "compiled does what it should\n"), right.stderr


def test_the_script_for_a_missing_gpu(failures):
    folder = failures / "values-cuda_sm90"
    text = (folder / "reproduce.py").read_text()
    assert "Needs torch, Triton and a real GPU (cuda)" in text.partition("import")[0]
    assert 'reproduce(test_values, CONSTANTS, "cuda", ' in text
    assert (folder / "inputs.pt").exists()
    assert "from conformance.cli.main import main" in (folder / "reproduce_with_suite.py").read_text()


def test_requirements_need_the_suite(failures):
    script = failures / f"kernels-{NATIVE}" / "reproduce.py"
    first = script.read_text().splitlines()[0]
    assert (
        first == "# This script needs the suite: the failure is not one of the numerics, and only the suite finds it."
    )
