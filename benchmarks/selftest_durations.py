"""Writes selftests/durations.json: how long the long selftests took when all of them last ran in this checkout.

    pytest -n 2 selftests && python benchmarks/selftest_durations.py

With workers, long tests begin first. A first run, such as one of CI, knows only the tests that this file names: all
that took LONG seconds, and for each of their files some that stand for its other tests. A wrong number costs nothing
but a worse plan.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conformance.storage import durations  # noqa: E402 - from this checkout
from conformance.storage.runs import private_folder  # noqa: E402

#: Seconds.
LONG = 5.0
FOLDER = "selftests"


def long_tests(seconds: dict[str, float]) -> dict[str, dict[str, float]]:
    """File → test → seconds: the long tests, and one more entry than those with the median of the others.

    The plan expects of a test that it does not know the median of its file.
    """
    files: dict[str, dict[str, float]] = defaultdict(dict)
    for node_id, value in seconds.items():
        file, _, test = node_id.partition("::")
        if file.startswith(f"{FOLDER}/") and (ROOT / file).exists():
            files[file][test] = value
    found = {}
    for file, tests in sorted(files.items()):
        long = {test: round(value) for test, value in sorted(tests.items()) if value >= LONG}
        others = [value for value in tests.values() if value < LONG]
        ordinary = max(0.1, round(statistics.median(others), 1)) if others else 0.5
        if long:
            found[file] = long | {f"another test {number}": ordinary for number in range(len(long) + 1)}
    return found


def main() -> int:
    found = long_tests(durations.read(private_folder(ROOT)))
    if not found:
        print("no selftest is known to take long: run them all first", file=sys.stderr)
        return 1
    durations.write(ROOT / FOLDER, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
