"""Measures what the installed plugin adds to a pytest run of a project that does not use it.

    python benchmarks/collection.py                # 10 pairs of runs
    python benchmarks/collection.py --pairs 30

Runs `pytest --collect-only` in a folder with one test, in turns with the plugin and with `-p no:conformance.plugin`.
Prints the median time of each, in seconds, and their ratio. The package must be installed, for its entry point.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
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
    print(f"with the plugin {with_plugin:.3f} s, without {without:.3f} s: {with_plugin / without:.3f} times")


def _seconds(folder: Path, *options: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *options], cwd=folder, check=True, capture_output=True
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
