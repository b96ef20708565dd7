"""The home page of the site: what the suite found in numbers, a kernel's diff as a picture, the matrix, three commands.

Numbers and the diff are read from what is stored: the page is as true as the checkout.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import bugs_page
import example_report
import jinja2
import pages

from conformance.cases.lookup import package_cases
from conformance.devices.targets import targets
from conformance.expectations.known_bugs import Bug
from conformance.expectations.severity import Severity
from conformance.review.diff import compare_texts
from conformance.storage.locations import EXPECTED_CODE
from conformance.storage.snapshots import Store

#: What the picture shows: a bug that changed the kernel of a case when it was fixed.
CASE, TARGET, RELEASES = "reduction/argmax_of_all-transposed", "cpu_avx512", ("2.13", "2.15")
_TITLE = f"The kernel of argmax(x.T) for {TARGET}, torch {RELEASES[0]} → {RELEASES[1]}"
#: Colours of the picture: those of a report. (background, text, soft, gone, come)
SCHEMES = {
    "light": ("#f5f7f9", "#1c2126", "#5a646e", "#ffe3e3", "#def5e2"),
    "dark": ("#1d2227", "#e4e7ea", "#a3adb7", "#44191c", "#163a20"),
}
_LINE, _CHARACTER, _EDGE = 20, 7.9, 16  # of the picture, in pixels
_SPACE = "\u00a0"  # a browser joins several spaces of an SVG


def write_page(source: Path) -> None:
    """Writes the page, with the picture of the matrix if the example has made it.

    Ends the process where the picture of the kernel would show nothing.
    """
    lines = diff()
    for name, colours in SCHEMES.items():
        file = source / "_static" / f"kernel-{name}.svg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(picture(lines, colours), encoding="utf-8")
    found = bugs_page.known()
    (source / "index.md").write_text(_text(source, found) + pages.contents(), encoding="utf-8")


def diff() -> list[str]:
    """The changed facts and the diff of the kernel, from the stored code of both releases."""
    snapshot = Store(pages.ROOT / "conformance" / EXPECTED_CODE).read(CASE)
    before, after = (snapshot.text(release, TARGET) if snapshot else None for release in RELEASES)
    difference = compare_texts(before, after) if before and after else None
    if difference is None:
        raise SystemExit(f"the home page shows {CASE} for {TARGET}, and that did not change: name another case")
    facts = [line for fact in difference.facts for line in fact.splitlines()]
    code = [line for line in difference.diff[2:] if not line.startswith("@@")]
    return [*facts, "", *code]


def picture(lines: Sequence[str], colours: Sequence[str]) -> str:
    """A diff as an SVG."""
    background, text, soft, gone, come = colours
    width = round(max(map(len, lines)) * _CHARACTER) + 2 * _EDGE
    height = len(lines) * _LINE + 2 * _EDGE
    rows = []
    for number, line in enumerate(lines):
        top = _EDGE + number * _LINE
        if colour := {"-": gone, "+": come}.get(line[:1]):
            rows.append(f'<rect x="0" y="{top}" width="{width}" height="{_LINE}" fill="{colour}"/>')
        fill = text if line[:1] in ("-", "+", " ") else soft
        rows.append(f'<text x="{_EDGE}" y="{top + 14}" fill="{fill}">{html.escape(line).replace(" ", _SPACE)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
            f"<title>{html.escape(_TITLE)}</title>",
            f'<rect width="{width}" height="{height}" fill="{background}"/>',
            '<g font-family="ui-monospace, DejaVu Sans Mono, monospace" font-size="13">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )


def numbers(found: Sequence[Bug]) -> list[tuple[int, str, str]]:
    """What the page counts: number, what it counts, and where it leads to."""
    cases = package_cases().cases
    of_severity = Counter(bug.severity for bug in found)
    table = bugs_page.ADDRESS.as_posix()
    return [
        (len(found), "bugs of Inductor", table),
        *(
            (of_severity[each], each.title, f"{table}#/page/known-bugs?severity={quote(each.title)}")
            for each in Severity
        ),
        (len(cases), "cases", ""),
        (len({case.id.partition("/")[0] for case in cases}), "groups of operators", ""),
        (len(targets()), "targets", ""),
    ]


def _text(source: Path, found: Sequence[Bug]) -> str:
    shown = next((bug for bug in found if any(CASE in failure.cases for failure in bug.failures)), None)
    if shown is None:
        raise SystemExit(f"the home page shows a bug of {CASE}, and there is none")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("home.md.jinja").render(
        numbers=numbers(found),
        bug=f"{bugs_page.ADDRESS.as_posix()}#/bug/{shown.id}",
        title=_TITLE,
        schemes=SCHEMES,
        releases=RELEASES,
        matrix=[each for each in example_report.MATRIX if (source / "_static" / each.file).is_file()],
    )
