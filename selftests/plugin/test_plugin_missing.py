"""Missing parts: pytest runs what it can, says in one sentence why it skips the rest, and fails if it ran nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time

import pytest
from suites import FOREIGN, NATIVE, SCALE, SM90, PreloadedSuite, Suite

from conformance.devices.environment import triton_to_install

CHECKS = ("--checks", "numerics,requirements")
NO_COMPILER = {"PATH": "/nowhere", "CXX": None}

NO_TRITON = """
import importlib.metadata
from conformance.devices.environment import triton_version

triton_version.cache_clear()  # the process may have asked before
before = importlib.metadata.distributions

def distributions(**what):
    return [] if "triton" in what.get("name", "") else before(**what)

importlib.metadata.distributions = distributions
pytest_plugins = ["conformance.plugin"]
"""

TORCH_FIRST = """
import torch
torch.ones(1, requires_grad=True).sum().backward()
torch.cuda.is_available(), torch.xpu.is_available()
pytest_plugins = ["conformance.plugin"]
"""


@pytest.fixture
def suite(tmp_path):
    """Its runs are processes that import torch themselves: what is missing is found before and while they do."""
    project = Suite(tmp_path)
    project.write("ops/test_scale.py", SCALE)
    return project


@pytest.fixture
def preloaded_suite(tmp_path):
    """The same for what the plugin notices later. A run with other variables has its own template: see preloaded.py."""
    project = PreloadedSuite(tmp_path)
    project.write("ops/test_scale.py", SCALE)
    return project


def chosen(*targets: str) -> tuple[str, ...]:
    """Selects f32 on these targets, and names none of them: a target that is named must run."""
    return ("-k", f"f32 and ({' or '.join(targets)})", *CHECKS)


def outcomes(found) -> dict[str, str]:
    return {f"{name} {kind.rpartition('.')[2]}": message or outcome for kind, name, outcome, message in found}


@pytest.mark.long("it tests how a real process starts, which imports torch")
def test_no_compiler(preloaded_suite):
    missing = "no C++ compiler was found: install g++, or set CXX to another one"
    ran, found = preloaded_suite.checks(*chosen(NATIVE, FOREIGN, "cuda_sm90"), env=NO_COMPILER)
    ran.ends(0).has(f"CPU code is generated but not run: {missing}")
    ran.has("3 items = 2 passed + 1 cannot run; numerics of 2 items did not run")
    results = outcomes(found)
    why = results.pop(f"test_double[f32-{FOREIGN}] numerics")  # in brackets, why qemu does not run it
    assert why.startswith(f"this machine has no {FOREIGN}: its code was generated but not run (")
    assert results == {
        f"test_double[f32-{NATIVE}] numerics": missing,
        f"test_double[f32-{NATIVE}] requirements": "passed",
        f"test_double[f32-{FOREIGN}] requirements": "passed",
        "test_double[f32-cuda_sm90] test_scale": f"the pretended device cannot be built: {missing}",
    }


@pytest.mark.long("it tests how a real process starts, which imports torch")
def test_a_compiler_that_is_not_there(suite):
    """Inductor uses only the compiler that CXX names."""
    ran, found = suite.checks(*chosen(NATIVE, "cuda_sm90"), env={"CXX": "no-such-compiler"})
    missing = "CXX=no-such-compiler is not an installed program: set CXX to a C++ compiler, or unset it to use g++"
    ran.ends(0).has(f"CPU code is generated but not run: {missing}")
    results = outcomes(found)
    assert results[f"test_double[f32-{NATIVE}] numerics"] == missing
    assert results["test_double[f32-cuda_sm90] test_scale"] == f"the pretended device cannot be built: {missing}"


def test_nothing_at_all(preloaded_suite):
    for workers in ((), ("-n", "2")):
        ran = preloaded_suite.run("-k", "cuda_sm90", *workers, env=NO_COMPILER).ends(1)
        ran.has("2 items: 2 skipped", "nothing was checked, so this run fails", "2 items = 2 cannot run")
        ran.has("the pretended device cannot be built: no C++ compiler")


@pytest.mark.parametrize("named", [("--target", "cuda_sm90"), ("--device", "cuda")], ids=["target", "device"])
def test_a_named_target_must_run(suite, named):
    suite.write("conftest.py", NO_TRITON)
    for workers in ((), ("-n", "2")):
        ran = suite.run(*named, *workers).ends(4)
        ran.has("no code can be generated for cuda_sm", "Triton is not installed: pip install triton")
    suite.run(*named, "--collect-only").ends(0).has("no Triton")


def test_a_run_that_compares_less_says_so(preloaded_suite):
    suite = preloaded_suite
    suite.write("conftest.py", NO_TRITON)
    every = chosen(NATIVE, FOREIGN, "cuda_sm90")
    ran = suite.run(*every).ends(0)
    ran.has(
        f"cannot run: Triton is not installed: pip install {triton_to_install()} (1 item)",
        f"numerics did not run: this machine has no {FOREIGN}: its code was generated but not run",
        "3 items = 2 passed + 1 cannot run; numerics of 1 item did not run",
    )
    for workers in ((), ("-n", "2")):
        ran = suite.run(*every, "--strict-run", *workers).ends(1)
        ran.has("--strict-run: this run fails, because it compared less than it was asked to")
    suite.run(*chosen(NATIVE), "--strict-run").ends(0).has("1 item = 1 passed\n")


@pytest.mark.long("it tests how a real process starts, which imports torch")
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_torch_imported_by_a_conftest(suite, workers):
    """An option enables the plugin, or the conftest names it: the plugin prepares before either imports torch."""
    for conftest in (TORCH_FIRST, TORCH_FIRST.partition("pytest_plugins")[0]):
        suite.write("conftest.py", conftest)
        ran = suite.run("--target", "cuda_sm90", "-k", "f32", *CHECKS, "-p", "conformance.plugin", *workers).ends(0)
        ran.has("1 item = 1 passed")


@pytest.mark.long("it tests how a real process starts, which imports torch")
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_torch_imported_by_another_plugin(suite, workers):
    """Pytest imports it before it calls any hook. The pretended devices answer all the same; variables are too late."""
    suite.write("early.py", TORCH_FIRST.partition("pytest_plugins")[0])
    early = {"PYTHONPATH": os.pathsep.join([".", *sys.path])}
    selected = ("-p", "early", "--target", "cuda_sm90", "-k", "f32", *CHECKS, *workers)
    suite.run(*selected, env=early).ends(0).has("1 item = 1 passed")
    ran = suite.run(*selected, env=early | {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}).ends(4)
    ran.has("torch was imported with TORCHINDUCTOR_MAX_AUTOTUNE set", "imported by early.py")


@pytest.mark.long("it tests how a real process starts, which imports torch")
def test_torch_imported_by_another_test(suite):
    suite.write("ops/test_a_first.py", TORCH_FIRST.partition("pytest_plugins")[0] + "\ndef test_first(): pass\n")
    suite.run("--target", "cuda_sm90", *CHECKS).ends(0).has("2 items = 2 passed")


MANY = """
from conformance import case, tensor

@case(x=tensor(shape=[(n,) for n in range(20, 140)]))
def test_double(x):
    return x * 2
"""


@pytest.mark.long("it starts workers and interrupts them after they have begun")
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


def test_a_torch_that_no_longer_fits(preloaded_suite):
    preloaded_suite.write("conftest.py", GONE)
    for workers in ((), ("-n", "2")):
        ran, found = preloaded_suite.checks(*chosen(FOREIGN, "cuda_sm80", "cuda_sm90", "xpu_pvc"), *workers)
        results = outcomes(found)
        [reason] = {results[f"test_double[f32-{target}] test_scale"] for target in ("cuda_sm80", "cuda_sm90")}
        assert re.fullmatch(
            r"torch 2\.\S+: torch\._C\._get_cudnn_batch_norm_reserve_space_size is missing, "
            "so code for cuda and rocm cannot be generated reproducibly",
            reason,
        )
        assert results["test_double[f32-xpu_pvc] requirements"] == "passed"
        assert results[f"test_double[f32-{FOREIGN}] requirements"] == "passed"
        ran.ends(0)
        assert ran.lines(f"cannot run: {reason}") == [f"cannot run: {reason} (2 items)"], "once, at the end of the run"


RENAMED = """
from conformance.capture.deviceless import gpu_patches
from conformance.capture.patching.patch import Patch

every = gpu_patches.patches
made_up = Patch("torch.cuda:no_such_function", lambda original: original, "made up")

def patches(target, queries=None):
    return [*every(target, queries), *([made_up] if target.device == "cuda" else [])]

gpu_patches.patches = patches
pytest_plugins = ["conformance.plugin"]
"""
SENTENCE = "torch.cuda.no_such_function is missing, so code for cuda and rocm cannot be generated reproducibly"


@pytest.mark.long("it tests how a real process starts, which imports torch")
def test_a_patch_that_no_longer_fits_is_named_at_the_start(suite):
    """Before torch is imported: in the header, and by --collect-only."""
    suite.write("conftest.py", RENAMED)
    both = ("--target", "cuda_sm90,xpu_pvc")
    suite.run(*CHECKS, *both).ends(4).has(SENTENCE)
    ran = suite.run(*chosen("cuda_sm90", "xpu_pvc")).ends(0)
    [notice] = [line for line in ran.text.partition("collected ")[0].splitlines() if line.endswith(SENTENCE)]
    assert re.match(r"torch 2\.\S+: ", notice)
    ran.has("cuda off;", "xpu deviceless")
    assert (ran.outcomes()["passed"], ran.outcomes()["skipped"]) == (1, 1)
    suite.run("--collect-only", *both).ends(0).has(SENTENCE)
    suite.write("conftest.py", RENAMED.replace("no_such_function", "synchronize"))
    ran = suite.run("--collect-only", *both).ends(0)
    ran.has("cuda deviceless; xpu deviceless")
    ran.has_not("is missing", " off")
