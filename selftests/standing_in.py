"""Runs pytest and commands with the stand-in for an Intel GPU: see stand_in/xpu_stand_in.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import preloaded
import pytest
from suites import REPOSITORY, PytestResult, Suite, environment, run_python, started

from conformance.devices.environment import HIDE_GPUS, torch_build, triton_version

#: Why the stand-in cannot take the place of a GPU here; "" where it can.
PROBLEM = (
    "Triton is not installed: pip install triton"
    if not triton_version()
    else "torch refuses a build for both cuda and xpu: the stand-in needs a torch without cuda"
    if "cuda" in torch_build().gpus
    else ""
)
needs_stand_in = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)

FOLDER = Path(__file__).parent / "stand_in"


def gpu(row: str = "xpu_bmg", *, repository: Path = REPOSITORY, **properties: Any) -> dict[str, str]:
    """The variables of a process that has the GPU of a row. `properties`: that differ from the row.

    `repository`: the folder of the package `conformance`.
    """
    return {
        "ONEAPI_DEVICE_SELECTOR": "*:*",
        "PYTHONPATH": os.pathsep.join([str(FOLDER), str(repository)]),
        "STAND_IN_XPU": row,
        "STAND_IN_PROPERTIES": json.dumps(properties),
    }


def preload_gpu_free_worker() -> None:
    """From now on, GPU-free workers beside the GPU of xpu_bmg start with torch imported."""
    preloaded.python(environment(gpu() | HIDE_GPUS))


def start(suite: Suite, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts `python -m conformance` in the folder of a suite, as a process group of its own."""
    return started(sys.executable, suite.root, environment(env or {}), "-m", "conformance", *words)


def command(suite: Suite, *words: str, env: Mapping[str, str] | None = None, timeout: int = 300) -> PytestResult:
    """Runs `python -m conformance` in the folder of a suite, with torch imported: see preloaded.py."""
    ran = run_python(
        "-m", "conformance", *words, folder=suite.root, env=env, timeout=timeout,
        capture_output=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return PytestResult(ran.returncode, ran.stdout)
