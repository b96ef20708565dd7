"""Compares the machine code of kernels that are compiled in batches with that of the same kernels compiled alone.

    python benchmarks/kernel_batches.py                 # every 10th case, all CPU targets that run here
    python benchmarks/kernel_batches.py --every 1       # all cases: an hour on two cores

Prints the CPU seconds of both ways, and each kernel whose code differs. The code is objdump's text of the kernel's
function and of the functions that OpenMP made of it, without addresses. Needs objdump, from binutils.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.cases.selectors import exclusion
from conformance.devices.machine import Machine
from conformance.devices.targets import Target

_FUNCTION = re.compile(r"^<?(kernel(?:_\d+)?(?:[._][\w.]*)?)>?:$")
#: A number in the name of a batch's function, and addresses.
_NUMBER = re.compile(r"\bkernel_\d+\b")
_ADDRESS = re.compile(r"\b(?:0x)?[0-9a-f]+(?=\(%rip\)|\s*<|$)|#.*$|\+0x[0-9a-f]+(?=>)")


def functions(library: Path) -> dict[str, tuple[str, ...]]:
    """Name → code, of the functions of kernels in a library."""
    command = ["objdump", "-d", "--no-show-raw-insn", "--no-addresses", str(library)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.endswith(":"):
            match = _FUNCTION.match(line)
            lines = found.setdefault(match[1], []) if match else []
        elif line.strip():
            code = _ADDRESS.sub("", _NUMBER.sub("kernel", line)).strip()
            if not code.startswith(("nop", "data16", "cs nop", "xchg   %ax,%ax")):  # padding
                lines.append(code)
    return {name: tuple(code) for name, code in found.items()}


def of_kernel(code: dict[str, tuple[str, ...]], number: int | None) -> Counter[tuple[str, ...]]:
    """The functions of one kernel. `number`: its number in the batch; None in a library of its own."""
    own = "kernel" if number is None else f"kernel_{number}"
    return Counter(lines for name, lines in code.items() if name == own or name.startswith(f"{own}."))


def likeness(code: Counter[tuple[str, ...]], alone: Counter[tuple[str, ...]]) -> str:
    """How near the code of a kernel in a batch is to its code alone."""
    if code == alone:
        return "same code"
    instructions = [sorted(line for lines in each.elements() for line in lines) for each in (code, alone)]
    if instructions[0] == instructions[1]:
        return "same instructions in another order"
    operations = [sorted(line.split()[0] for line in each) for each in instructions]
    return "same operations on other registers" if operations[0] == operations[1] else "other code"


def compared(cases: list[Case], target: Target, seconds: Counter[str]) -> Iterator[tuple[str, str]]:
    """For each kernel in a batch of the cases: its path, and how near its code is to that of the kernel alone."""
    from conformance.capture.isolation import isolated
    from conformance.capture.toolchain.atomic_build import AtomicBuilder
    from conformance.capture.toolchain.kernel_batch import KernelBatch, read_entry
    from conformance.compiler.ahead import capture_ahead

    batch = KernelBatch()
    for case in cases:
        with contextlib.suppress(Exception):  # not for a batch, or a known failure of Inductor
            capture_ahead(case, target).collect_kernels(batch)
    builders: dict[str, Any] = dict(batch._builders)  # noqa: SLF001 - what the batch compiles
    with isolated(target, "native", {}):
        before = os.times()
        batch.compile()
        between = os.times()
        for path, builder in builders.items():
            if read_entry(Path(path)) is not None:
                AtomicBuilder(builder).build()
        after = os.times()
    seconds["batched"] += (
        between.children_user + between.children_system - before.children_user - before.children_system
    )
    seconds["alone"] += after.children_user + after.children_system - between.children_user - between.children_system
    known: dict[Path, dict[str, tuple[str, ...]]] = {}
    for path in builders:
        if (entry := read_entry(Path(path))) is not None:
            library, number = entry
            code = known.setdefault(library, functions(library))
            alone = of_kernel(functions(Path(path)), None)
            if not alone:
                raise SystemExit(f"{path} has no kernel: nothing was compared")
            yield path, likeness(of_kernel(code, number), alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=10, help="compare every Nth case (default 10)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        machine = Machine.detect()
        prepare()
        targets = [each for each in machine.targets().values() if each.device == "cpu" and machine.is_native(each)]
        cases = cases_below([OPS])[:: options.every]
        for target in targets:
            own = [case for case in cases if not exclusion(case, target)]
            seconds: Counter[str] = Counter()
            results = [
                each for start in range(0, len(own), 24) for each in compared(own[start : start + 24], target, seconds)
            ]
            counts = Counter(how for _, how in results)
            print(f"{target.name}: {len(results)} kernels: {', '.join(f'{n} {how}' for how, n in counts.items())}")
            print(f"  compiler: batched {seconds['batched']:.0f} CPU s, alone {seconds['alone']:.0f} CPU s")
            for path in (path for path, how in results if how == "other code"):
                print(f"  {path}")


if __name__ == "__main__":
    main()
