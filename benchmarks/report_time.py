"""Times the report of a run of everything: all cases on all targets, made from what is stored for a torch release.

    python benchmarks/report_time.py --torch 2.13 -o /tmp/report.html

Prints how long the report takes, its size, and for comparison how long it takes to read the run's JSON alone.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path

from conformance.report.changes import changes_of
from conformance.report.columns import cells_of
from conformance.report.page import page
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Store

STORE = Path(__file__).parents[1] / "conformance" / "expected_code"
#: The endings that the made items have in turn, so that the report shows each.
_OUTCOMES = [*[Outcome.PASSED] * 40, Outcome.KNOWN, Outcome.EXCLUDED, Outcome.SKIPPED, Outcome.FAILED]


def made_run(folder: Path, torch: str) -> Run:
    """Writes a run with an item for each stored text of a torch release."""
    run, store, outcomes = Run(folder), Store(STORE), itertools.cycle(_OUTCOMES)
    selected = {}
    run.begin({"torch": f"{torch}.0", "triton": "", "targets": []})
    for file in sorted(STORE.rglob("*.txt")):
        case = file.relative_to(STORE).with_suffix("").as_posix()
        snapshot = store.read(case)
        for target in snapshot.targets(torch) if snapshot else []:
            checks = {
                "numerics": CheckResult(next(outcomes), "made for a benchmark"),
                "code": CheckResult(Outcome.PASSED),
            }
            text = snapshot.text(torch, target) or ""
            evidence = "native" if target.startswith("cpu") else "emulated"
            item = ItemRecord(
                case, target, "deviceless", f"{torch}.0", str(STORE), text=text, checks=checks, evidence=evidence
            )
            run.write_item(item)
            selected[f"{case}[{target}]"] = item.name
    run.write_selected(selected)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch", default="2.13")
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = made_run(Path(folder, "everything"), arguments.torch)
        start = time.perf_counter()
        count = sum(1 for _ in run.items())
        reading = time.perf_counter() - start
        start = time.perf_counter()
        cells = cells_of([run])
        text = page([run], cells, changes_of(cells))
        taken = time.perf_counter() - start
        arguments.output.write_text(text, encoding="utf-8")
    print(f"{count:,} items: report {taken:.1f} s, {len(text) / 1e6:.1f} MB; reading the run alone {reading:.1f} s")


if __name__ == "__main__":
    main()
