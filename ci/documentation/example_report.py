"""The example of a report: made from the kept runs of several machines, with screenshots of its pages."""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import kept_runs

ROOT = Path(__file__).resolve().parents[2]
#: Where the report is in the site. The site's page about reports is report.html.
ADDRESS = Path("examples", "merged-report.html")
#: Of the browser.
OPTIONS = ["--no-sandbox", "--disable-gpu"]


@dataclass(frozen=True)
class Screenshot:
    """A picture docs/images/report-NAME.png.

    `title`: what it shows. `address`: in the report. `size`: in pixels. `click`: a selector of what is clicked there.
    `scroll`: a selector of what stands at the head of the picture.
    """

    name: str
    title: str
    address: str
    size: tuple[int, int] = (1200, 900)
    scheme: str = "light"
    click: str = ""
    scroll: str = ""

    @property
    def file(self) -> str:
        return f"report-{self.name}.png"


#: The first cause that reaches several cases on all devices: it has something to show.
_WIDE = "section:has-text('cases, on cpu, cuda and xpu') h2 a"
SCREENSHOTS = (
    Screenshot("matrix", "All operators by torch release and target", "#/"),
    Screenshot(
        "case",
        "A case: its facts with Inductor's reasons",
        "#/case/flip/hflip-224-u8-contiguous?target=cpu_avx2&torch=2.13",
    ),
    Screenshot(
        "side-by-side",
        "Its code on two instruction sets",
        "#/case/flip/vflip-224-f32-contiguous?target=cpu_avx512&torch=2.13&with=2.13+cpu_avx2",
        (1200, 1000),
    ),
    Screenshot("changes", "What differs from the stored code, grouped by cause", "#/changes"),
    Screenshot("change", "One cause: an example, and each text before and after", "#/changes", click=_WIDE),
    Screenshot("phone", "On a phone, in the dark", "#/operator/flip", (400, 800), "dark"),
)
#: The matrix in both colour schemes, for the home page.
MATRIX = tuple(
    Screenshot(f"operators-{scheme}", SCREENSHOTS[0].title, "#/", (1200, 640), scheme, scroll=".matrix")
    for scheme in ("light", "dark")
)


def write_example(source: Path, runs: Sequence[str], *, screenshots: bool) -> None:
    """Writes the report, its page and the screenshots. `runs`: the folders of runs; without: the kept ones."""
    report = source / "_extra" / ADDRESS
    report.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        chosen = [Path(run) for run in runs] or kept_runs.unpack(Path(folder))
        words = ["--title", "conformance: an example", "-o", report]
        subprocess.run([sys.executable, "-m", "conformance", "report", *chosen, *words], check=True, cwd=ROOT)
    if screenshots:
        take(report, source / "images")
        take(report, source / "_static", MATRIX)
    write_page(source, screenshots=screenshots)


def write_page(source: Path, *, screenshots: bool = False) -> None:
    """Writes the page that leads to the report, and shows the screenshots that there are."""
    lines = [
        "# An example of a report",
        "",
        f'<a href="{ADDRESS.name}">The report itself</a> is one file. It was made with this site from [runs that the',
        "repository keeps](../report.md#the-example-of-the-documentation): each says what machine and torch it had.",
        "",
    ]
    if (source / "_extra" / "matrix").is_dir():
        lines += ['There is also <a href="../matrix/index.html">the report of the last run of all jobs in CI</a>.', ""]
    if screenshots:
        for each in SCREENSHOTS:
            link = f'<a href="{html.escape(f"{ADDRESS.name}{each.address}")}">Open it in the report</a>'
            lines += [f"## {each.title}", "", f"{link}.", "", f"![{each.title}](../images/{each.file})", ""]
    path = source / "examples" / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")


def shown_in_docs() -> list[Screenshot]:
    """The screenshots that docs/report.md shows: docs/images/ has copies of them."""
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    return [each for each in SCREENSHOTS if f"images/{each.file}" in text]


def chromium() -> str:
    """The installed browser. Ends the process where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit(
            "a browser makes the screenshots and checks the pages: install chromium, or give --without-screenshots"
        )
    return found


def take(report: Path, folder: Path, pictures: Sequence[Screenshot] = SCREENSHOTS) -> None:
    """Writes the screenshots of a report into a folder. Ends the process where there is no browser."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=OPTIONS)
        for each in pictures:
            width, height = each.size
            view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=each.scheme)
            errors: list[str] = []
            view.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            view.goto(report.resolve().as_uri() + each.address)
            view.wait_for_selector("html[data-shown]", state="attached")
            if each.click:
                view.locator(each.click).first.click()
                view.wait_for_selector(f"html[data-shown]:not([data-shown='{each.address}'])", state="attached")
            if each.scroll:
                view.locator(each.scroll).first.evaluate("element => element.scrollIntoView()")
            if errors or view.get_by_text("Not in this report").count():
                sys.exit(f"the report shows nothing at {each.address}: {'; '.join(errors) or 'not in this report'}")
            view.screenshot(path=folder / each.file)
            view.close()
        browser.close()
