"""Each cache of torch that isolation clears must be cleared: otherwise one device gets another device's answer."""

from __future__ import annotations

import json
from pathlib import Path

from suites import run_python

from conformance.devices.environment import torch_build

DRIVER = Path(__file__).with_name("caches_driver.py")

#: Older versions ask nothing that differs between devices.
NEEDED_FROM = {"torch._inductor.comm_analysis:get_gpu_type": (2, 13)}


def test_every_cleared_cache_has_to_be():
    ran = run_python(DRIVER, timeout=500)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, ran.stdout + ran.stderr
    found, unknown = json.loads(lines[0].removeprefix("RESULT"))
    problems = [f"{where}: must be in both DEVICE_CACHES and caches_driver.QUESTIONS" for where in unknown]
    for where, (alone, after, without) in found.items():
        if alone.startswith("raises"):
            problems.append(f"{where}: for a pretended device, it {alone}")
        elif after != alone:
            problems.append(f"{where}: is not cleared: for a second device it returns {after}, not {alone}")
        elif without == alone and torch_build().release >= NEEDED_FROM.get(where, (0, 0)):
            problems.append(f"{where}: returns {alone} without being cleared: remove it from DEVICE_CACHES")
    assert not problems, "\n".join(problems)
    assert len(found) > 10
