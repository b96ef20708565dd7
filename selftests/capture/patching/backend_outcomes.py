"""Functions of patch_outcomes.py for the patches of other backends of the CPU. They need neither Halide nor jax."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

from conformance.capture import isolation
from conformance.devices.targets import targets


def generated_by_halide(target: str) -> str:
    """What the script of a Halide kernel has when it imports its one file of torch."""
    from torch._inductor import codecache

    with tempfile.TemporaryDirectory() as folder, isolation.isolated(targets()[target], "deviceless", {}):
        script, answer = Path(folder, "generate_kernel.py"), Path(folder, "answer")
        script.write_text(
            "import sys\nfrom torch._inductor.runtime import halide_helpers\n"
            "whole = hasattr(sys.modules['torch'], 'Tensor')\n"  # a preloaded process has the other modules already
            "open(sys.argv[1], 'w').write('torch was imported' if whole else 'without torch')\n"
        )
        job = functools.partial(subprocess.check_call, [sys.executable, str(script), str(answer)])
        codecache._worker_task_halide(f"{folder}/lock", [job])
        return answer.read_text()


def called_by_pallas(target: str) -> str:
    """How often three calls of a Pallas kernel clear jax's caches."""
    from torch._inductor.codegen.pallas import PallasKernelWrapper

    cleared: list[None] = []
    jax = types.SimpleNamespace(clear_caches=lambda: cleared.append(None))
    with mock.patch.dict(sys.modules, jax=jax), isolation.isolated(targets()[target], "deviceless", {}):
        kernel = PallasKernelWrapper(lambda **_stream: jax.clear_caches())
        for _ in range(3):
            kernel.run()
    return str(len(cleared))
