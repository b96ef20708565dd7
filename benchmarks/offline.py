"""Compiles every Triton kernel of the suite without the device: counts those that compile, and times each.

    python benchmarks/offline.py                                # all cases, all cuda and xpu targets
    python benchmarks/offline.py --targets cuda_sm90 --cases 'mm/*' --json offline.json

Triton's cache is empty at the start. A kernel of several cases is compiled once for each target. Seconds are CPU
seconds of Triton and ptxas for one kernel, with all configurations that Inductor may launch it with. The process that
compiles takes more seconds to start, once. Exit status 1 if a kernel does not compile.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="test files or folders (default: the suite)"
    )
    parser.add_argument("--cases", default="*", metavar="PATTERN", help="only ids that match, such as 'mm/*'")
    parser.add_argument("--targets", metavar="LIST", help="names, comma-separated (default: all of cuda and xpu)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every kernel with its launches")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        measured = measure(arguments.files, arguments.cases, arguments.targets)
    print(table(measured))
    failed = [kernel for kernels in measured.values() for kernel in kernels if kernel["problem"]]
    for kernel in failed:
        print(f"\n{kernel['case']}: {kernel['problem']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    return bool(failed)


def measure(files: Sequence[Path], pattern: str, targets: str | None) -> dict[str, list[dict[str, Any]]]:
    """Returns target → kernels: `case`, `name`, `launches`, `seconds`; `problem`: why it does not compile, or ""."""
    from conformance.capture.offline import compiler
    from conformance.cases.lookup import OPS, cases_below
    from conformance.devices.targets import select_targets
    from conformance.errors import first_line
    from conformance.harness.generator import GeneratingError, Generator

    measured: dict[str, list[dict[str, Any]]] = {}
    with contextlib.closing(Generator()) as generator:
        gpus = [target for target in generator.machine.targets().values() if target.device != "cpu"]
        cases = [case for case in cases_below(files or [OPS]) if fnmatch.fnmatch(case.id, pattern)]
        for target in select_targets(gpus, None, targets):
            compiled: set[str] = set()
            kernels = measured[target.name] = []
            for case in cases:
                try:
                    with generator.capture(case, target, deviceless=True) as captured:
                        found = compiler.kernels(captured.capture)
                except GeneratingError as error:
                    print(f"not generated: {first_line(error)}", file=sys.stderr)
                    continue
                for kernel in found:
                    if kernel.text in compiled:
                        continue
                    compiled.add(kernel.text)
                    entry: dict[str, Any] = {"case": case.id, "name": kernel.name, "launches": [], "problem": ""}
                    kernels.append(entry)
                    try:
                        launches, entry["seconds"] = compiler.compile_uncached(kernel)
                        entry["launches"] = [dataclasses.asdict(launch) for launch in launches]
                    except compiler.KernelError as error:
                        entry["problem"] = str(error)
    return measured


def table(measured: dict[str, list[dict[str, Any]]]) -> str:
    """A Markdown table with a row for each target."""
    rows = [
        "| | kernels | launches | as far as | compile | CPU s a kernel: median, mean, most | spill | tensor cores |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for target, kernels in measured.items():
        good = [kernel for kernel in kernels if not kernel["problem"]]
        launches = [launch for kernel in good for launch in kernel["launches"]]
        seconds = [kernel["seconds"] for kernel in good] or [0.0]
        stages = ", ".join(Counter(launch["last"] for launch in launches)) or "nothing"
        times = f"{statistics.median(seconds):.2f}, {statistics.mean(seconds):.2f}, {max(seconds):.2f}"
        spill, cores = (sum(bool(launch[what]) for launch in launches) for what in ("spills", "tensor_cores"))
        rows.append(
            f"| {target} | {len(kernels)} | {len(launches)} | {stages} | {len(good)} | {times} | {spill} | {cores} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
