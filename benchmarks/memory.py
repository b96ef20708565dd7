"""Measures how much memory a process keeps of each case that it has captured.

    python benchmarks/memory.py                          # every 20th case of the suite, for cuda_sm90
    python benchmarks/memory.py --every 5 --target cpu_avx2

Prints the memory of the process, in MiB without the files that it maps, after each 50 captures, and how much it grew
for each of them after the first 100: until then it imports parts of torch. harness/accidents/process_memory.py has the
limit.
"""

from __future__ import annotations

import argparse
import contextlib
import gc

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.loader import NoCaseError, cases_in
from conformance.cases.roots import OPS
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets
from conformance.harness.accidents.process_memory import used

_STEP, _WARM = 50, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=20, metavar="N", help="take each N-th case")
    parser.add_argument("--target", default="cuda_sm90")
    options = parser.parse_args()
    prepare()
    target, captured, failed, warm = targets()[options.target], 0, 0, 0
    for case in _cases()[:: options.every]:
        try:
            with capture(CaseRequest(case, target)):
                captured += 1
        except Exception:  # noqa: BLE001 - known failures do not compile; they are counted
            failed += 1
            continue
        if captured % _STEP == 0:
            gc.collect()
            now = used() or 0
            warm = now if captured == _WARM else warm
            grown = f", {(now - warm) / (captured - _WARM):.2f} a capture since {_WARM}" if captured > _WARM else ""
            print(f"{captured} captures: {now:,} MiB{grown}", flush=True)
    print(f"{captured} captures, {failed} did not compile")


def _cases() -> list:
    found = []
    for file in sorted(OPS.glob("test_*.py")):
        with contextlib.suppress(NoCaseError):
            found += cases_in(file).values()
    return found


if __name__ == "__main__":
    main()
