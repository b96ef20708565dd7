"""Says which change makes a failing case of another backend of the CPU pass: the cause is tested, and not read.

    pip install jax   # or halide
    python benchmarks/backend_causes.py pallas flip/vflip-224-f32-channels_last unary/frac
    python benchmarks/backend_causes.py halide softmax/all_masked-rows

    pallas  by_rows        every input is contiguous, so that places in memory are places in the tensor
            no_denormals   eager flushes denormal numbers too, as XLA does
    halide  in_double      exp, log, pow and others of float32 compute in float64

Of the 275 items whose numerics failed with Pallas without a known failure, 149 pass with one of its changes. Of the 20
models with wrong values with Halide, 17 do; of 321 items of ops/, 153, where max, expm1 and fmod were mended too.
(torch 2.13, AVX-512)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

#: Names the change for the process of pytest, which imports this file as a plugin.
_VARIABLE = "BACKEND_CAUSES_CHANGE"


def by_rows() -> None:
    from conformance.cases import inputs

    def contiguous(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **properties: original(**properties | {"layout": "contiguous"})

    for name in ("_tensor", "_image"):
        setattr(inputs, name, contiguous(getattr(inputs, name)))


def no_denormals() -> None:
    import torch

    torch.set_num_threads(1)  # the option is one of the thread
    torch.set_flush_denormal(True)


def in_double() -> None:
    from conformance.capture.toolchain import other_backends

    other_backends._SCRIPT = Path(__file__).with_name("halide_in_double.py")  # noqa: SLF001 - no user changes it


CHANGES = {"pallas": (by_rows, no_denormals), "halide": (in_double,)}


def pytest_runtest_setup() -> None:
    """Some libraries set the mode of denormal numbers back."""
    if os.environ[_VARIABLE] == no_denormals.__name__:
        no_denormals()


def pytest_configure() -> None:
    for change in (*CHANGES["pallas"], *CHANGES["halide"]):
        if os.environ[_VARIABLE] == change.__name__:
            change()


def passing(backend: str, cases: list[str], change: str) -> set[str]:
    """The cases whose numerics pass; with a change, or "" for none. Entries of known failures do not count."""
    from conformance.storage.check_results import Outcome
    from conformance.storage.runs import Run

    with tempfile.TemporaryDirectory() as folder:
        subset = Path(folder, "subset")
        subset.write_text("\n".join(cases))
        options = ("-n", "2", "-q", "-p", "no:cacheprovider", "-p", Path(__file__).stem, "--target", "cpu_avx2")
        options += (f"--conformance-subset={subset}", "--checks", "numerics", "--item-timeout", "100", "--fresh")
        options += ("--inductor-config", f"cpu_backend={backend}", "--save-run", f"{folder}/run", "conformance/ops")
        environment = os.environ | {_VARIABLE: change, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/kernels"}
        environment |= {"PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(__file__).parent)))}
        command = [sys.executable, "-m", "pytest", *options]
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
        items = Run(Path(folder, "run")).items()
        return {each.case for each in items if each.outcome("numerics") is Outcome.PASSED}


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] not in CHANGES:
        print(__doc__, file=sys.stderr)
        return 2
    backend, *cases = sys.argv[1:]
    passes = {change: passing(backend, cases, change) for change in ("", *(each.__name__ for each in CHANGES[backend]))}
    for case in cases:
        found = [change or "no change" for change in passes if case in passes[change]]
        print(f"{case}: {'passes with ' + ' and '.join(found) if found else 'fails with each'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
