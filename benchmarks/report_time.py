"""Times the report of a run of everything: all cases on all targets, made from what is stored for a torch release.

    python benchmarks/report_time.py -o /tmp/report.html
    python benchmarks/report_time.py --keep /tmp/everything        # keeps the run for the next call

The made run has what a real one has: each ending, errors of numerics by magnitude, and changed texts. Prints the wall
and CPU time of the report, its size, and how long it takes to read the run's JSON alone. With playwright and a Chromium
it opens the report: prints until when the matrix is shown, and how long a filter takes to answer. The same of `view`:
how long it takes to start, to show the runs, to make the report of the run, and to show it again.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.devices.targets import targets
from conformance.normalize.text import parse_facts
from conformance.report.changes import changes_of
from conformance.report.columns import cells_of
from conformance.report.further_pages import further_pages
from conformance.report.page import page
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Store

#: So many cases on 8 targets are 20,000 items. Those without stored code get made names.
CASES = 2500
STORE = Path(__file__).parents[1] / "conformance" / "expected_code"
OPS = STORE.with_name("ops")
#: The endings that the made items have in turn, so that the report shows each.
_OUTCOMES = [*[Outcome.PASSED] * 40, Outcome.KNOWN, Outcome.EXCLUDED, Outcome.SKIPPED, Outcome.FAILED]
#: Two edits of the compiler: all texts that have the first text have the second one instead.
_EDITS = (("tl.load(", "tl.load_cached("), ("static_cast<", "convert_to<"))
#: Types words into the filter. Returns the milliseconds until the page has its new layout.
_FILTER = """(words) => {
    const field = document.querySelector("[name=q]"), start = performance.now();
    field.value = words; field.dispatchEvent(new Event("input", { bubbles: true }));
    document.body.offsetHeight; return performance.now() - start;
}"""
_BUCKETS = [f"{exponent} {exponent} 3.{-exponent} 2.{-exponent} 1{-exponent}.5" for exponent in range(-12, 0)]


def made_run(folder: Path, torch: str, edit_every: int) -> Run:
    """Writes a run with an item for each case and default target. `edit_every`: every so manieth text is changed."""
    run, store, outcomes = Run(folder), Store(STORE), itertools.cycle(_OUTCOMES)
    names = [name for name, target in targets().items() if not target.variant_of]
    run.begin({"torch": f"{torch}.0", "triton": "", "targets": names})
    selected = {}
    for number, (case, target, text) in enumerate(_texts(store, torch, names)):
        changed = text
        for before, after in _EDITS if number % edit_every == 0 else ():
            changed = changed.replace(before, after)
        checks = {
            "numerics": CheckResult(next(outcomes), "made for a benchmark"),
            "code": CheckResult(Outcome.PASSED if changed == text else Outcome.FAILED, "CodeError: differs"),
        }
        if not text:
            checks = {"compile": CheckResult(Outcome.EXCLUDED, "made for a benchmark")}
        is_cpu = target.startswith("cpu")
        item = ItemRecord(
            case,
            target,
            "native" if is_cpu else "deviceless",
            f"{torch}.0",
            str(STORE),
            text=changed,
            facts=parse_facts(changed) if changed else {},
            file=str(OPS / f"test_{case.partition('/')[0]}.py"),
            checks=checks,
            evidence="native" if is_cpu else "emulated",
            error_profiles=[_profile("output"), _profile("gradient of x")] if is_cpu else [],
        )
        run.write_item(item)
        operator, _, labels = case.partition("/")
        name, _, labels = labels.partition("-")
        selected[f"conformance/ops/test_{operator}.py::test_{name}[{labels}-{target}]"] = item.name
    run.write_selected(selected)
    return run


def _texts(store: Store, torch: str, names: list[str]) -> Iterator[tuple[str, str, str]]:
    """Case, target and stored text; "" where none is stored, as for cases that check numerics alone."""
    stored = [file.relative_to(STORE).with_suffix("").as_posix() for file in sorted(STORE.rglob("*.txt"))]
    for case in [*stored, *(f"unary/made-{number}" for number in range(CASES - len(stored)))]:
        snapshot = store.read(case)
        for target in names:
            yield case, target, (snapshot.text(torch, target) if snapshot else "") or ""


def _profile(tensor: str) -> dict[str, Any]:
    return {"call": "ordinary", "tensor": tensor, "dtype": "float32", "buckets": _BUCKETS}


def time_in_browser(address: str) -> None:
    """Opens the report three times in a new browser context; then types into the filter."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        opened, filtered, processor = [], [], []
        for _ in range(3):
            view = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
            metrics = view.context.new_cdp_session(view)
            metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
            start = time.perf_counter()
            view.goto(address)
            view.wait_for_selector("#sum")
            opened.append(time.perf_counter() - start)
            for words in ("f", "flip", "f16 -flip", "zzz", ""):
                before = _processor_seconds(metrics)
                filtered.append(view.evaluate(_FILTER, words))
                processor.append(1e3 * (_processor_seconds(metrics) - before))
        browser.close()
    for name, times, unit in (
        ("opened in", opened, "s"),
        ("a filter answers in", filtered, "ms"),
        ("a filter takes, of CPU,", processor, "ms"),
    ):
        print(f"{name} {statistics.median(times):.3g} {unit} (slowest {max(times):.3g})")


def time_view(run: Run, folder: Path) -> None:
    """Starts `view` in a project whose only run is this one, and looks at its pages. `folder`: on the run's disk."""
    with tempfile.TemporaryDirectory(dir=folder) as project:
        shutil.copytree(run.folder, Path(project, ".conformance", "runs", "everything"), copy_function=os.link)
        command, start = [sys.executable, "-m", "conformance", "view"], time.perf_counter()
        with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
            try:
                address = next(process.stdout or iter(())).split()[0]
                print(f"view: started in {time.perf_counter() - start:.2f} s")
                for what, page in (
                    ("runs", ""),
                    ("report, made", "run/everything"),
                    ("report, kept", "run/everything"),
                ):
                    start = time.perf_counter()
                    with urllib.request.urlopen(address + page) as answer:  # noqa: S310 - view has printed it
                        size = len(answer.read())
                    print(f"{what}: {time.perf_counter() - start:.2f} s, {size / 1e6:.1f} MB")
                if importlib.util.find_spec("playwright"):
                    time_in_browser(f"{address}run/everything")
            finally:
                process.terminate()


def _processor_seconds(metrics: Any) -> float:
    """CPU seconds of the page's thread for scripts, styles and layout: other programs do not disturb them."""
    found = {each["name"]: each["value"] for each in metrics.send("Performance.getMetrics")["metrics"]}
    return sum(found[name] for name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.13", help="the release whose stored code is used (default: 2.13)")
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), help="the report")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="the made run; made if it does not exist")
    parser.add_argument("--edit-every", type=int, default=20, metavar="N", help="change every N-th text (default: 20)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary, "everything")
        run = Run(folder) if folder.exists() else made_run(folder, arguments.torch, arguments.edit_every)
        start = time.perf_counter()
        count = sum(1 for _ in run.items())
        reading = time.perf_counter() - start
        start, processor = time.perf_counter(), time.process_time()
        cells = cells_of([run])
        changes = changes_of(cells)
        text = page([run], cells, changes, further_pages(cells))
        arguments.output.write_text(text, encoding="utf-8")
        taken, processor = time.perf_counter() - start, time.process_time() - processor
        print(
            f"{count:,} items, {len(changes.old):,} changed texts of {len(changes.data)} causes: report {taken:.1f} s "
            f"({processor:.1f} s of CPU), {len(text) / 1e6:.1f} MB; reading the run alone {reading:.1f} s"
        )
        if importlib.util.find_spec("playwright"):
            time_in_browser(arguments.output.absolute().as_uri())
        time_view(run, folder.parent)
        print("load average:", *(f"{each:.1f}" for each in os.getloadavg()))


if __name__ == "__main__":
    main()
