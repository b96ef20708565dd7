"""capture/preloading.py."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import torch
from conformance.capture.preloading import import_compiler
import_compiler()
from torch._inductor.codegen.common import get_device_op_overrides
print(*(get_device_op_overrides(device).device_guard(0) for device in ("cuda", "xpu")))
"""


def test_devices_keep_their_guards():
    """On torch 2.11, the GPUs are registered only if no device is: importing the CPU first leaves them out."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["torch.cuda._DeviceGuard(0)", "torch.xpu._DeviceGuard(0)"]
