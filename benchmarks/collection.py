"""Measures what the installed plugin adds to a pytest run of a project that does not use it.

    python benchmarks/collection.py                # 10 pairs of runs
    python benchmarks/collection.py --pairs 30

Runs `pytest --collect-only` in a folder with one test, in turns with the plugin and with `-p no:conformance.plugin`.
Prints the median CPU time of each, in seconds, their difference and their ratio. Other programs disturb CPU time less
than the time on the clock. The package must be installed, for its entry point.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_WITHOUT = ("-p", "no:conformance.plugin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="how often each of the two runs")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_nothing.py").write_text("def test_nothing(): pass\n", encoding="utf-8")
        times = [(_seconds(folder), _seconds(folder, *_WITHOUT)) for _ in range(pairs)]
    with_plugin, without = (statistics.median(column) for column in zip(*times, strict=True))
    more = statistics.median(with_it - without_it for with_it, without_it in times)
    print(f"CPU time with the plugin {with_plugin:.3f} s, without {without:.3f} s: {with_plugin / without:.3f} times")
    print(f"median difference of the pairs: {more:.3f} s")


def _seconds(folder: Path, *options: str) -> float:
    start = _cpu_of_children()
    subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *options], cwd=folder, check=True, capture_output=True
    )
    return _cpu_of_children() - start


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
