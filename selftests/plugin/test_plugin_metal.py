"""plugins/metal: Metal generated, built and run without a Mac, with the plugin from its wheel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
import wheels
from suites import REPOSITORY, Suite, environment

PLUGIN = REPOSITORY / "plugins" / "metal"
RUN = """
from conformance import case, tensor

@case(x=tensor(3, 1500), require={"all": {"kernels": 2}})
def test_rows(x):
    return x.softmax(1), x.flip(1)

@case(x=tensor(3, dtype="f64"))
def test_wide(x):
    return x.sin()

@case(x=tensor(3, 40, low=-9, high=-1, dtype="i64"))
def test_greatest(x):
    return x.amax(1)
"""


@pytest.fixture(scope="session")
def plugin(tmp_path_factory):
    """PYTHONPATH with the plugin, installed from its wheel, beside this checkout."""

    def install(folder):
        source = folder / "source"
        shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-deps"]
        subprocess.run([*pip, "--no-build-isolation", "-w", str(folder / "wheels"), str(source)], check=True)
        [wheel] = (folder / "wheels").glob("*.whl")
        wheels.install_to(folder / "site", [wheel])

    folder = wheels.once(tmp_path_factory, "metal", install)
    return {"PYTHONPATH": f"{folder / 'site'}:{REPOSITORY}"}


@pytest.mark.long("it builds and runs kernels by the C++ stand-in of Metal")
def test_cases_are_generated_built_and_run(tmp_path, plugin):
    project = Suite(tmp_path)
    project.write("test_own.py", RUN)
    ran = project.run("test_own.py", "--target", "mps_m4", env=plugin, timeout=300).ends(1)
    ran.has("numerics passed: 1 emulated", "1 excluded", "numerics failed: own/greatest-mps_m4")
    records = {
        path.stem: json.loads(path.read_text()) for path in tmp_path.glob(".conformance/runs/2*/items/**/*.json")
    }
    [rows] = [record for name, record in records.items() if "rows" in name]
    assert (rows["mode"], rows["evidence"]) == ("deviceless", "emulated")
    assert rows["facts"]["threadgroups"] == "1x1024"
    assert rows["facts"]["reductions"].startswith("1 max, 1 sum; ")
    assert "kernel void" in rows["text"]
    assert rows["checks"]["requirements"]["outcome"] == "passed"


@pytest.mark.long("it builds and runs kernels by the C++ stand-in of Metal")
def test_planted_faults_are_found(plugin):
    """One that the build finds, one that shows as a race, and one that leaves the bounds of an argument."""
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "metal_faults.py"), "masks", "barrier", "past"]
    ran = subprocess.run(command, env=environment(plugin), capture_output=True, text=True, check=False, timeout=300)
    assert ran.stdout.splitlines()[-1:] == ["3 of 3 found as the table says"], ran.stdout + ran.stderr
    assert "before deduction of" in ran.stdout
    assert "out of bounds: in_ptr0[12000]" in ran.stdout
