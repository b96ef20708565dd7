"""pytest with --torch-source: the Python files of a checkout, with the installed binaries."""

from __future__ import annotations

import json
import shutil

import pytest
from suites import CONFTEST, SCALE, SM90, Suite

from conformance.devices.environment import torch_build
from conformance.sources.torch_source import installed_files


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with the Python files of the installed torch, of which one lowering is another."""
    folder, torch = tmp_path_factory.mktemp("checkout"), torch_build().folder
    for path in installed_files(torch):
        (folder / "torch" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(torch / path, folder / "torch" / path)
    lowering = folder / "torch" / "_inductor" / "codegen" / "triton.py"
    text = lowering.read_text()
    edited = text.replace("class TritonOverrides(OpOverrides):", EDIT, 1)
    assert edited != text
    lowering.write_text(edited)
    return folder


EDIT = """class TritonOverrides(OpOverrides):
    @staticmethod
    def mul(a, b):
        return f"({a} * {b} + 0.0)"
"""


@pytest.mark.long("it starts processes with torch from other sources")
def test_code_of_a_checkout_goes_into_a_folder_of_its_own_and_says_so(checkout, tmp_path):
    suite = Suite(tmp_path / "suite")
    suite.write("ops/test_scale.py", SCALE)
    (tmp_path / "mine").mkdir()
    option = f"--torch-source={checkout}"
    suite.accept(*SM90, "-k", "f32", option).ends(4).has("give it a folder of its own with --store DIR")
    words = (*SM90, "-k", "f32", option, f"--store={tmp_path / 'mine'}", "--checks", "code", "--save-run", "mine")
    suite.accept(*words).ends(0).has("1 new", f"torch's Python files are those of {checkout}", "1 file differs")
    assert json.loads((tmp_path / "mine" / "torch_source.json").read_text()) == {"path": str(checkout), "commit": ""}
    description = json.loads((suite.root / ".conformance" / "runs" / "mine" / "run.json").read_text())
    assert description["torch_source"] == {"path": str(checkout), "commit": ""}
    stored = "".join(file.read_text() for file in (tmp_path / "mine").rglob("*.txt"))
    assert "+ 0.0)" in stored
    assert suite.stored() == {}


@pytest.mark.long("it starts processes with torch from other sources")
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_what_comes_first_in_the_path_does_not_matter(checkout, tmp_path, workers):
    """With --pyargs, pytest puts the folder of the installed packages first."""
    suite = Suite(tmp_path / "suite")
    suite.write("ops/test_scale.py", SCALE)
    suite.write("conftest.py", f"{CONFTEST}import sys\n\nsys.path.insert(0, {str(torch_build().folder.parent)!r})\n")
    words = ("-k", "f32", f"--torch-source={checkout}", "--checks", "code", "--save-run", "mine", *workers)
    suite.run(*SM90, *words).ends(1)
    [item] = (suite.root / ".conformance/runs/mine/items/scale").glob("*.json")
    assert "+ 0.0)" in item.read_text()


IMPORTS_ANOTHER = """
import sys

sys.meta_path[:] = [each for each in sys.meta_path if "TreeFinder" not in type(each).__name__]
sys.path.insert(0, {!r})
import torch
"""


@pytest.mark.long("it starts processes with torch from other sources")
@pytest.mark.parametrize(("workers", "status"), [((), 4), (("-n", "1"), 1)])
def test_a_run_that_imports_other_files_ends(checkout, tmp_path, workers, status):
    suite = Suite(tmp_path / "suite")
    suite.write("ops/test_scale.py", SCALE)
    suite.write("ops/conftest.py", IMPORTS_ANOTHER.format(str(torch_build().folder.parent)))
    ran = suite.run(*SM90, f"--torch-source={checkout}", "--checks", "requirements", *workers).ends(status)
    ran.has(f"--torch-source {checkout}: Python has imported {torch_build().folder}/__init__.py, which is not below")
    ran.has_not("passed")


@pytest.mark.long("it starts processes with torch from other sources")
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_one_command_compares_two_torches_as_two_runs(checkout, tmp_path, workers):
    suite = Suite(tmp_path / "suite")
    suite.write("ops/test_scale.py", SCALE)
    result = suite.run(*SM90, "-k", "f32", "--checks", "code", f"--baseline={checkout}", *workers).ends(1)
    name = f"baseline-{checkout.name}"
    result.has(
        f"baseline: the same items with {checkout}",
        f"differs from run {name} by 1 cause",
        "- tmp2 = (tmp0 * tmp1 + 0.0)",
    )
    result.has(f"next: python -m conformance review --baseline {name}")
    assert result.text.count("test session starts") == 1, "the run of the baseline prints into a file"
    assert "1 item = 1 failed" in (suite.root / f".conformance/runs/{name}.log").read_text()
    assert suite.stored() == {}


def test_a_folder_after_a_blank_is_refused(checkout, tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", SCALE)
    suite.run("--torch-source", str(checkout)).ends(4).has(f"write --torch-source={checkout}")
