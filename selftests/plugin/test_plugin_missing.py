"""Missing parts: pytest runs what it can, says in one sentence why it skips the rest, and fails if it ran nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from suites import FOREIGN, NATIVE, SM90, Suite

F32 = ("-k", "f32", "--checks", "numerics,requirements")
NO_COMPILER = {"PATH": "/nowhere", "CXX": None}

NO_TRITON = """
import importlib.metadata
before = importlib.metadata.distributions

def distributions(**what):
    return [] if "triton" in what.get("name", "") else before(**what)

importlib.metadata.distributions = distributions
pytest_plugins = ["conformance.plugin"]
"""

TOO_LATE = "torch was imported before the plugin: load the plugin first, with pytest_plugins = ['conformance.plugin']"
TORCH_FIRST = """
import torch
torch.ones(1, requires_grad=True).sum().backward()
torch.cuda.is_available(), torch.xpu.is_available()
pytest_plugins = ["conformance.plugin"]
"""


def outcomes(found) -> dict[str, str]:
    return {f"{name} {kind.rpartition('.')[2]}": message or outcome for kind, name, outcome, message in found}


def test_no_compiler(suite):
    missing = "no C++ compiler was found: install g++, or set CXX to another one"
    ran, found = suite.checks(*F32, "--target", f"{NATIVE},{FOREIGN},cuda_sm90", env=NO_COMPILER)
    ran.ends(0).has(f"CPU code is generated but not run: {missing}")
    assert outcomes(found) == {
        f"test_double[f32-{NATIVE}] numerics": missing,
        f"test_double[f32-{NATIVE}] requirements": "passed",
        f"test_double[f32-{FOREIGN}] numerics": f"this machine has no {FOREIGN}: its code was generated but not run",
        f"test_double[f32-{FOREIGN}] requirements": "passed",
        "test_double[f32-cuda_sm90] test_scale": f"the pretended device cannot be built: {missing}",
    }


def test_a_compiler_that_is_not_there(suite):
    """Inductor uses only the compiler that CXX names."""
    wanted = ("--target", f"{NATIVE},cuda_sm90")
    ran, found = suite.checks(*F32, *wanted, env={"CXX": "no-such-compiler"})
    missing = "CXX=no-such-compiler is not an installed program: set CXX to a C++ compiler, or unset it to use g++"
    ran.ends(0).has(f"CPU code is generated but not run: {missing}")
    results = outcomes(found)
    assert results[f"test_double[f32-{NATIVE}] numerics"] == missing
    assert results["test_double[f32-cuda_sm90] test_scale"] == f"the pretended device cannot be built: {missing}"


def test_nothing_at_all(suite):
    ran = suite.run(*SM90, env=NO_COMPILER).ends(1)
    ran.has("nothing was checked, so this run fails", "the pretended device cannot be built: no C++ compiler")
    ran = suite.run(*SM90, "-n", "2", env=NO_COMPILER).ends(1)
    ran.has("2 items: 2 skipped", "nothing was checked, so this run fails")


def test_no_triton(suite):
    suite.write("conftest.py", NO_TRITON)
    ran = suite.run(*SM90).ends(1)
    ran.has("no Triton", "Triton is not installed: pip install triton", "nothing was checked")


def test_torch_before_the_plugin(suite):
    """Builds of torch differ in whether the answers about devices can still be changed by then."""
    suite.write("conftest.py", TORCH_FIRST)
    ran, found = suite.checks(*F32, *SM90)
    results = set(outcomes(found).values())
    if ran.status == 0:
        assert "passed" in results
    else:
        assert ran.status == 1
        assert results == {TOO_LATE}


MANY = """
from conformance import case, tensor

@case(x=tensor(shape=[(n,) for n in range(20, 140)]))
def test_double(x):
    return x * 2
"""


def test_interrupted(suite: Suite):
    """Ctrl-C reaches all processes of the terminal at the same time."""
    suite.write("ops/test_scale.py", MANY)
    process = suite.start(*SM90, "-n", "2", env={"EXPECTTEST_ACCEPT": "1"})
    runs = suite.root / ".conformance/runs"
    deadline = time.monotonic() + 120
    while len(list(runs.glob("*/items/scale/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 2, text
    assert "the run was interrupted: nothing was accepted; run the same command again" in text
    assert not suite.stored()
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        os.killpg(process.pid, 0)
        raise AssertionError("workers are still there")


GONE = """
pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    '''A torch that lacks a function which the patches for a pretended cuda replace.'''
    import torch
    del torch._C._get_cudnn_batch_norm_reserve_space_size
"""


def test_a_torch_that_no_longer_fits(suite):
    suite.write("conftest.py", GONE)
    for workers in ((), ("-n", "2")):
        ran, found = suite.checks(*F32, "--target", f"{FOREIGN},cuda_sm80,cuda_sm90,xpu_pvc", *workers)
        results = outcomes(found)
        [reason] = {results[f"test_double[f32-{target}] test_scale"] for target in ("cuda_sm80", "cuda_sm90")}
        assert re.fullmatch(
            r"torch 2\.\S+: torch\._C\._get_cudnn_batch_norm_reserve_space_size is missing, "
            "so code for cuda cannot be generated reproducibly",
            reason,
        )
        assert results["test_double[f32-xpu_pvc] requirements"] == "passed"
        assert results[f"test_double[f32-{FOREIGN}] requirements"] == "passed"
        ran.ends(0)
        assert ran.lines(reason) == [reason], "once, at the end of the run"


RENAMED = """
from conformance.capture.deviceless import gpu_patches
from conformance.capture.patching.patch import Patch

every = gpu_patches.patches
made_up = Patch("torch.cuda:no_such_function", lambda original: original, "made up")
gpu_patches.patches = lambda target: [*every(target), *([made_up] if target.device == "cuda" else [])]
pytest_plugins = ["conformance.plugin"]
"""
SENTENCE = "torch.cuda.no_such_function is missing, so code for cuda cannot be generated reproducibly"


def test_a_patch_that_no_longer_fits_is_named_at_the_start(suite):
    """Before torch is imported: in the header, and by --collect-only."""
    suite.write("conftest.py", RENAMED)
    both = ("--target", "cuda_sm90,xpu_pvc")
    ran = suite.run(*F32, *both).ends(0)
    [notice] = [line for line in ran.text.partition("collected ")[0].splitlines() if line.endswith(SENTENCE)]
    assert re.match(r"torch 2\.\S+: ", notice)
    ran.has("cuda off; xpu deviceless")
    assert (ran.outcomes()["passed"], ran.outcomes()["skipped"]) == (1, 1)
    suite.run("--collect-only", *both).ends(0).has(SENTENCE)
    suite.write("conftest.py", RENAMED.replace("no_such_function", "synchronize"))
    ran = suite.run("--collect-only", *both).ends(0)
    ran.has("cuda deviceless; xpu deviceless")
    ran.has_not("is missing", " off")
