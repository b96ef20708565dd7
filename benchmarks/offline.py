"""Generates every case without the device and compiles its Triton kernels: counts both, and times each kernel.

    python benchmarks/offline.py                                # all cases, all targets of GPUs, variants too
    python benchmarks/offline.py --targets rocm_gfx942,rocm_gfx950
    python benchmarks/offline.py --targets cuda_sm90 --cases 'mm/*' --json offline.json

Triton's cache is empty at the start. A kernel of several cases is compiled once for each target. Seconds are CPU
seconds of Triton and what it calls (ptxas for cuda, LLVM for rocm) for one kernel, with all configurations that
Inductor may launch it with. The process that compiles takes more seconds to start, once. Exit status 1 if a kernel does
not compile. A case that is not generated is named with its reason; it changes nothing in the status, since known
failures are among them.
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
    parser.add_argument("--targets", metavar="LIST", help="names, comma-separated (default: all GPUs)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every kernel with its launches")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        measured = measure(arguments.files, arguments.cases, arguments.targets)
    print(table(measured))
    for target, found in measured.items():
        for case, reason in found.not_generated.items():
            print(f"\nnot generated for {target}: {case}: {reason}")
    failed = [kernel for found in measured.values() for kernel in found.kernels if kernel["problem"]]
    for kernel in failed:
        print(f"\n{kernel['case']}: {kernel['problem']}")
    if arguments.json:
        text = json.dumps({target: dataclasses.asdict(found) for target, found in measured.items()}, indent=1)
        arguments.json.write_text(text, encoding="utf-8")
    return bool(failed)


@dataclasses.dataclass
class Measured:
    """What one target gave. `generated`: the number of cases. `excluded`: the cases that are not for the target.

    `not_generated`: case → what compiling it raised. `kernels`: `case`, `name`, `launches`, `seconds`; `problem`: why
    the kernel does not compile, or "".
    """

    generated: int = 0
    excluded: list[str] = dataclasses.field(default_factory=list)
    not_generated: dict[str, str] = dataclasses.field(default_factory=dict)
    kernels: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def measure(files: Sequence[Path], pattern: str, targets: str | None) -> dict[str, Measured]:
    """Returns target → what it gave."""
    from conformance.cases.lookup import cases_below
    from conformance.cases.roots import OPS
    from conformance.cases.selectors import exclusion
    from conformance.cases.target_selection import select_targets
    from conformance.compiler.compiler import GeneratingError, compiler_here
    from conformance.compiler.shared_captures import SharedCaptures
    from conformance.errors import first_line

    with contextlib.closing(compiler_here()) as compiler:
        gpus = [target for target in compiler.machine.targets().values() if target.device != "cpu"]
        selected = select_targets(gpus, None, targets, with_variants=True)
        measured = {target.name: Measured() for target in selected}
        compiled: dict[str, set[str]] = {target.name: set() for target in selected}
        shared = SharedCaptures()
        for case in cases_below(files or [OPS]):
            if not fnmatch.fnmatch(case.id, pattern):
                continue
            for target in selected:
                found = measured[target.name]
                if exclusion(case, target):
                    found.excluded.append(case.id)
                    continue
                try:
                    capture = _capture(compiler, shared, case, target)
                except GeneratingError as error:
                    found.not_generated[case.id] = first_line(error)
                    continue
                found.generated += 1
                found.kernels += _compile_new(capture, compiled[target.name])
    return measured


def _capture(compiler: Any, shared: Any, case: Any, target: Any) -> Any:
    """The capture, or that of an earlier target if it is the same for this one."""
    if (same := shared.find(case, target)) is not None:
        return same.for_target(target)
    with compiler.generate(case, target, deviceless=True) as captured:
        shared.add(case, target, captured.capture, captured.queries)
        return captured.capture


def _compile_new(capture: Any, compiled: set[str]) -> list[dict[str, Any]]:
    """Compiles the kernels whose text is not in `compiled`, and adds it."""
    from conformance.capture.offline import compiler

    entries = []
    for kernel in compiler.kernels(capture):
        if kernel.text in compiled:
            continue
        compiled.add(kernel.text)
        entry: dict[str, Any] = {"case": capture.case, "name": kernel.name, "launches": [], "problem": ""}
        entries.append(entry)
        try:
            launches, entry["seconds"] = compiler.compile_uncached(kernel)
            entry["launches"] = [dataclasses.asdict(launch) for launch in launches]
        except compiler.KernelError as error:
            entry["problem"] = str(error)
    return entries


def table(measured: dict[str, Measured]) -> str:
    """A Markdown table with a row for each target."""
    titles = "generated | not | kernels | launches | as far as | compile | CPU s a kernel: median, mean, most"
    rows = [f"| | {titles} | spill | tensor cores |", "|---|---:|---:|---:|---:|---|---:|---:|---:|---:|"]
    for target, found in measured.items():
        kernels = found.kernels
        good = [kernel for kernel in kernels if not kernel["problem"]]
        launches = [launch for kernel in good for launch in kernel["launches"]]
        seconds = [kernel["seconds"] for kernel in good] or [0.0]
        stages = ", ".join(Counter(launch["last"] for launch in launches)) or "nothing"
        times = f"{statistics.median(seconds):.2f}, {statistics.mean(seconds):.2f}, {max(seconds):.2f}"
        spill, cores = (sum(bool(launch[what]) for launch in launches) for what in ("spills", "tensor_cores"))
        numbers = [found.generated, len(found.not_generated), len(kernels), len(launches), stages, len(good), times]
        rows.append(f"| {target} | {' | '.join(map(str, [*numbers, spill, cores]))} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
