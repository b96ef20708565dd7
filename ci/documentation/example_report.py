"""The page with an example of a report: made from runs, with screenshots of its pages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Name of a screenshot → what it shows, the address in the report, and the size of the window.
SCREENSHOTS = {
    "matrix": ("All operators by targets", "#/", (1200, 900)),
    "case": (
        "A case: its facts with Inductor's reasons",
        "#/case/flip/hflip-224-u8-contiguous?target=cpu_avx2",
        (1200, 900),
    ),
    "side-by-side": (
        "Its code beside that of another target",
        "#/case/flip/vflip-224-f32-contiguous?target=cpu_avx512&with=2.13+cpu_avx2",
        (1200, 1000),
    ),
    "phone": ("On a phone, in the dark", "#/operator/flip", (400, 800)),
}


def write_example(source: Path, runs: Sequence[str], *, screenshots: bool) -> None:
    """Writes the page. Without `runs`, it runs the flips first."""
    with tempfile.TemporaryDirectory() as folder:
        if not runs:
            runs = [str(Path(folder, "run"))]
            words = ["-q", "-p", "no:cacheprovider", "--save-run", f"{runs[0]}/", "conformance/ops/test_flip.py"]
            subprocess.run([sys.executable, "-m", "pytest", *words], check=True, cwd=ROOT)
        report = source / "_extra" / "report.html"
        subprocess.run([sys.executable, "-m", "conformance", "report", *runs, "-o", report], check=True, cwd=ROOT)
    link = '<a href="../report.html">The report itself</a>'
    lines = ["# An example of a report", "", f"{link} is one file. It was made with this site.", ""]
    if screenshots:
        _take(report, source / "_static")
        for name, (title, _, _) in SCREENSHOTS.items():
            lines += [f"## {title}", "", f"![{title}](../_static/{name}.png)", ""]
    path = source / "examples" / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")


def _take(report: Path, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser_path is None:
        sys.exit("screenshots need a Chromium: install chromium, or give --without-screenshots")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        for name, (_, address, (width, height)) in SCREENSHOTS.items():
            scheme = "dark" if name == "phone" else "light"
            view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            view.goto(report.as_uri() + address)
            view.wait_for_selector("html[data-shown]", state="attached")
            view.screenshot(path=folder / f"{name}.png")
            view.close()
        browser.close()
