"""A device of another package: examples/vendor/, installed from its wheel beside the wheels of this project."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys

import pytest
import wheels
from suites import REPOSITORY, Suite, environment

EXAMPLE = REPOSITORY / "examples" / "vendor"
PLUGIN = EXAMPLE / "conformance_acme" / "__init__.py"

#: A kernel, a reduction, a gradient, a product that the device's library makes, and a fallback to eager.
CASES = {
    "test_flip.py::test_hflip": "224-u8-contiguous",
    "test_sum.py::test_columns": "f16",
    "test_activation.py::test_gradient": "silu",
    "test_matmul.py::test_addmm": "f32-forward",
    "test_binary.py::test_gcd": "",
}


@pytest.fixture(scope="session")
def vendor(tmp_path_factory, distributions):
    """PYTHONPATH with the wheels of the harness, the suite and the example."""

    def install(folder):
        source = folder / "source"
        shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-deps"]
        subprocess.run([*pip, "--no-build-isolation", "-w", str(folder / "wheels"), str(source)], check=True)
        [wheel] = (folder / "wheels").glob("*.whl")
        wheels.install_to(folder / "site", [*distributions.parts, distributions.suite, wheel])

    folder = wheels.once(tmp_path_factory, "vendor", install)
    return {"PYTHONPATH": str(folder / "site")}


def node_ids():
    for place, labels in CASES.items():
        yield f"conformance.ops.{place.replace('.py', '')}[{'-'.join(filter(None, (labels, 'acme_host')))}]"


@pytest.mark.long("its real processes build and load a vendor's device")
def test_cases_run_on_the_device(tmp_path, vendor):
    project = Suite(tmp_path, conftest="")
    where = "import conformance; print(conformance.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], env=environment(vendor), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert str(REPOSITORY) not in found.stdout
    ran = project.run("--pyargs", *node_ids(), "--device", "acme", env=vendor, timeout=900).ends(0)
    ran.has("acme native (stand-in over host memory, AVX2, acme_host)", f"{len(CASES)} items: {len(CASES)} native")
    ran.has(f"numerics passed: {len(CASES)} native")
    records = [json.loads(path.read_text()) for path in tmp_path.glob(".conformance/runs/2*/items/**/*.json")]
    assert len(records) == len(CASES)
    for record in records:
        assert (record["target"], record["mode"], record["evidence"]) == ("acme_host", "native", "native")
        assert record["checks"]["numerics"]["outcome"] == "passed"
        assert record["checks"]["requirements"]["outcome"] == "passed"
        assert record["checks"]["code"]["outcome"] == "skipped"
        assert "no code is stored for acme_host" in record["checks"]["code"]["detail"]
        assert record["text"]


@pytest.mark.long("its real processes build and load a vendor's device")
@pytest.mark.parametrize("command", ["list", "doctor"])
def test_commands_know_the_device(tmp_path, vendor, command):
    Suite(tmp_path, conftest="")
    words = {"list": ["list", "flip/hflip-224-u8", "--device", "acme"], "doctor": ["doctor"]}[command]
    ran = subprocess.run(
        [sys.executable, "-m", "conformance", *words],
        env=environment(vendor),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {"list": "test_hflip[224-u8-contiguous-acme_host]", "doctor": "native (stand-in over host memory, AVX2"}
    assert expected[command] in ran.stdout


@pytest.mark.long("its real processes build and load a vendor's device")
def test_a_machine_without_the_device(tmp_path, vendor):
    """Without --device, the items of the device are not there; with it, one sentence says why nothing runs."""
    project = Suite(tmp_path, conftest="")
    project.write(
        "test_own.py", "from conformance import case, tensor\n@case(x=tensor(3))\ndef test_own(x):\n    return x\n"
    )
    here = vendor | {"ACME_DEVICES": "0"}
    ran = project.run("--device", "acme", "test_own.py", env=here)
    assert ran.status != 0
    ran.has("this machine has no acme_host, and conformance-acme 1.0 generates no code without the device")
    project.run("--target", "acme_other", "test_own.py", env=here).ends(4).has("unknown target 'acme_other'; known are")
    collected = project.run("--collect-only", "-q", "-p", "conformance.plugin", "test_own.py", env=here)
    collected.ends(0).has("test_own[cpu_avx2]")
    collected.has_not("acme_host")


def test_plugin_file_is_short_and_patches_nothing():
    text = PLUGIN.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    tree = ast.parse(text)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in imported if name.partition(".")[0] in ("torch", "torch_acme", "triton")]
    assert "setattr" not in text
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            assert all(isinstance(target, ast.Name) for target in targets), ast.unparse(node)
