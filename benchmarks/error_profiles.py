"""Measures what the error profiles of a run's record cost: their share of the CPU time of compiling and of numerics.

    python benchmarks/error_profiles.py conformance/ops/test_softmax.py conformance/ops/test_loss.py --every 5

Compiles and checks cases natively on this CPU, in this process. One run gives the ratio, so other programs do not
disturb it. The size in a record: --run FOLDER reads the items of a run, and says what share of their bytes it is.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.lookup import cases_below
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.numerics import measurement
from conformance.numerics.check import check_numerics
from conformance.numerics.comparison import NumericsError


class Clock:
    """Adds up the CPU seconds of the functions that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - start

        return timed


def time_cases(files: list[Path], every: int) -> None:
    """Prints the share of the profiles, over all cases."""
    prepare(())
    profiles, numerics = Clock(), Clock()
    for name in ("buckets_of", "eager_error_up_to_bucket"):
        setattr(measurement, name, profiles.wrap(getattr(measurement, name)))
    target = targets()[f"cpu_{Machine.detect().isas[0]}"]
    start, count = time.process_time(), 0
    for case in itertools.islice(cases_below(files), 0, None, every):
        try:
            with capture(CaseRequest(case, target, "native")) as captured:
                numerics.wrap(check_numerics)(case, captured.compiled, "cpu", target.name, already_called=True)
        except NumericsError:
            pass
        except Exception as error:  # noqa: BLE001 - some cases raise on purpose
            print(f"{case.id}: {type(error).__name__}")
            continue
        count += 1
    whole = time.process_time() - start
    print(f"{count} cases: profiles {profiles.seconds:.2f} s, numerics {numerics.seconds:.1f} s, whole {whole:.1f} s")
    print(f"share of numerics {profiles.seconds / numerics.seconds:.2%}, of the whole {profiles.seconds / whole:.2%}")


def size_in(folder: Path) -> None:
    """Prints what share of the bytes of a run's items the profiles are."""
    whole = without = 0
    for path in folder.rglob("items/**/*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        whole += len(json.dumps(data, indent=1))
        del data["error_profiles"]
        without += len(json.dumps(data, indent=1))
    print(f"items: {whole / 1e6:.2f} MB, {whole / without - 1:+.1%} by the profiles")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="files of cases")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th case")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="the folder of a run")
    arguments = parser.parse_args()
    if arguments.files:
        time_cases(arguments.files, arguments.every)
    if arguments.run:
        size_in(arguments.run)


if __name__ == "__main__":
    main()
