"""Measures the store: its size for 1,000 cases × 8 targets × 3 versions, reading it, and collecting the cases.

    python benchmarks/store.py [--cases 1000] [--versions 2.11,2.13,2.15] [--expected FOLDER]

The measured project is generated in a temporary folder: the wanted number of cases, with copies of the suite's own
snapshots. If a version is not stored, its size is estimated from the growth between the two newest stored versions.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.roots import OPS
from conformance.devices.targets import targets
from conformance.storage.snapshots import Snapshot, Store

CASES_IN_A_FILE = 50
CONFTEST = 'pytest_plugins = ["conformance.plugin"]\n'
TEST_FILE = """\
from conformance import case, tensor


@case(x=tensor(20, dtype={dtypes}))
def test_double(x):
    return x * 2
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--versions", default="2.11,2.13,2.15")
    parser.add_argument("--expected", type=Path, default=OPS.parent / "expected_code")
    arguments = parser.parse_args()
    store = Store(arguments.expected, list(targets()))
    snapshots = {case: snapshot for case in store.cases() if (snapshot := store.read(case))}
    versions = arguments.versions.split(",")
    print_sizes(store, snapshots, versions, arguments.cases)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        generate(root, store, list(snapshots), arguments.cases)
        print_reading(Store(root / "ops/expected_code", list(targets())))
        print_collecting(root)


def print_sizes(store: Store, snapshots: dict[str, Snapshot], versions: Sequence[str], wanted: int) -> None:
    """Prints the stored bytes for each number of versions, and the bytes for the wanted number of cases."""
    known = [version for version in versions if any(version in s.versions() for s in snapshots.values())]
    print(f"{len(snapshots)} cases × {len(targets())} targets; stored versions of torch: {', '.join(known)}")
    print(f"{'torch':<16}{'bytes':>12}{'per case':>10}{f'{wanted} cases, MB':>18}{'median lines of a file':>24}")
    sizes = []
    for count in range(1, len(known) + 1):
        kept = [_only(snapshot, known[-count:]) for snapshot in snapshots.values()]
        contents = [store.format(snapshot) for snapshot in kept if snapshot.texts]
        sizes.append(sum(len(content.encode()) for content in contents))
        lines = statistics.median(content.count("\n") for content in contents)
        _row(" ".join(known[-count:]), sizes[-1], len(contents), wanted, f"{lines:.0f}")
    for missing in range(len(versions) - len(known)):
        if len(sizes) > 1:
            more = sizes[len(known) - 1] + (missing + 1) * (sizes[1] - sizes[0])
            _row(f"{len(known) + missing + 1} versions", more, len(snapshots), wanted, "estimated")


def _row(name: str, size: int, cases: int, wanted: int, lines: str) -> None:
    print(f"{name:<16}{size:>12,}{size / cases:>10,.0f}{size / cases * wanted / 1e6:>18.1f}{lines:>24}")


def _only(snapshot: Snapshot, versions: Sequence[str]) -> Snapshot:
    return Snapshot({key: text for key, text in snapshot.texts.items() if key[0] in versions})


def generate(root: Path, store: Store, like: Sequence[str], cases: int) -> None:
    (root / "conftest.py").write_text(CONFTEST)
    (root / "ops").mkdir()
    for first in range(0, cases, CASES_IN_A_FILE):
        operator = f"op{first // CASES_IN_A_FILE}"
        labels = [f"d{number}" for number in range(min(CASES_IN_A_FILE, cases - first))]
        dtypes = "{" + ", ".join(f'"{label}": "f32"' for label in labels) + "}"
        (root / f"ops/test_{operator}.py").write_text(TEST_FILE.replace("{dtypes}", dtypes))
        folder = root / "ops/expected_code" / operator
        folder.mkdir(parents=True)
        for number, label in enumerate(labels):
            content = store.path(like[(first + number) % len(like)]).read_bytes()
            (folder / f"double-{label}.txt").write_bytes(content)


def print_reading(store: Store) -> None:
    cases = store.cases()
    start = time.perf_counter()
    versions = store.versions()
    known = time.perf_counter() - start
    times = []
    for case in cases:
        start = time.perf_counter()
        store.read(case)
        times.append(time.perf_counter() - start)
    each, worst = statistics.mean(times) * 1e3, max(times) * 1e3
    print(
        f"reading {len(cases)} files: {each:.2f} ms each, at most {worst:.1f} ms; "
        f"finding the stored versions ({', '.join(versions)}): {known * 1e3:.0f} ms in each process"
    )


def print_collecting(root: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "ops"]
    path = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH")]))
    for attempt in ("first", "second"):
        start = time.perf_counter()
        done = subprocess.run(
            command, cwd=root, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        last = (done.stdout.strip().splitlines() or [done.stderr])[-1]
        print(f"{attempt} collection: {time.perf_counter() - start:.2f} s: {last}")


if __name__ == "__main__":
    main()
