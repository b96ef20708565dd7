"""Further pages of a report: known bugs, missed optimisations, changes between torch releases, same bits, and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance import documentation
from conformance.cases.bit_variants import PROPERTIES
from conformance.devices.torch_releases import CHANGES
from conformance.expectations import known_failures, missed_optimisations
from conformance.expectations.known_bugs import Bug, bugs
from conformance.report.columns import Cells
from conformance.report.timeline import Entry, timeline

#: The address of the page of known bugs.
BUGS = "known-bugs"
#: The folder of the cases that the pages about releases of torch were made from.
_OF_THE_SUITE = ("conformance", "ops")


@dataclass(frozen=True)
class Section:
    """A page: its address and title.

    `data`: one of the keys html, bugs, same_bits, measurements, timeline, explain.
    """

    address: str
    title: str
    data: dict[str, Any]


def further_pages(
    cells: Cells, measured: Sequence[Mapping[str, Any]] = (), past: Sequence[Entry] = ()
) -> list[Section]:
    """Returns the pages. `measured`: what bench measured, as `Report.summary` gives it; two are compared.

    `past`: the runs of a history.

    Raises KnownFailureError.
    """
    return [
        *_known_bugs(cells),
        *_missed_optimisations(cells),
        *_changes(cells),
        *_same_bits(cells),
        *_times(measured),
        *([Section("history", f"History ({len(past)})", {"timeline": timeline(past)})] if past else []),
    ]


def _known_bugs(cells: Cells) -> Iterable[Section]:
    """The known failures beside the cases of the runs that apply to one of their torch versions."""
    records = [cell.record for cell in cells.cells.values() if cell.record is not None]
    folders = sorted({record.known for record in records if record.known})
    failures = [each for folder in folders for each in known_failures.load(Path(folder)).failures]
    torches = {record.torch for record in records}
    found = [bug for bug in bugs(failures) if any(map(bug.applies_to, torches))]
    if found:
        yield bugs_page(found)


def bugs_page(found: Sequence[Bug]) -> Section:
    """A page with a table of bugs, and one for each."""
    return Section(BUGS, f"Known bugs ({len(found)})", {"bugs": [bug.to_json() for bug in found]})


def _missed_optimisations(cells: Cells) -> Iterable[Section]:
    records = [cell.record for cell in cells.cells.values() if cell.record is not None and cell.record.missed]
    if records:
        sections = missed_optimisations.sections(records)
        about = f"{len({record.case for record in records})} cases of these runs have some."
        yield _page("missed", f"Missed ({len(records)})", "\n".join(missed_optimisations.markdown(sections, about)))


def _changes(cells: Cells) -> Iterable[Section]:
    """What releases of torch changed in the cases of the suite: pages that come with it, for runs of its cases."""
    records = [cell.record for cell in cells.cells.values() if cell.record is not None]
    if not any(Path(record.file).parts[-3:-1] == _OF_THE_SUITE for record in records):
        return
    known = documentation.pages()
    for name, releases in CHANGES.items():
        if name in known:
            yield _page(name, " → ".join(releases), documentation.page_text(name))


def _same_bits(cells: Cells) -> Iterable[Section]:
    """The verdicts of the check same_bits: operator by target by property, and each reason."""
    rows = [
        [cell.case, cell.column.target, cell.column.torch, _verdicts(cell.record.same_bits)]
        for cell in cells.cells.values()
        if cell.record is not None and cell.record.same_bits
    ]
    if rows:
        yield Section(
            "same-bits",
            f"Same bits ({len(rows)})",
            {"same_bits": sorted(rows), "properties": [*PROPERTIES], "about": [*PROPERTIES.values()]},
        )


def _verdicts(found: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """For each property: word, evidence, which variant and what of it differs, and the reason."""
    return [
        [each["word"], each["evidence"], ", ".join(filter(None, (each["name"], each["text"]))), each["reason"]]
        for each in (found[kind] for kind in PROPERTIES)
    ]


def _times(measured: Sequence[Mapping[str, Any]]) -> Iterable[Section]:
    if measured:
        yield Section("times", "Times", {"measurements": list(measured)})


def _page(address: str, title: str, text: str) -> Section:
    """A page of Markdown. HTML in it is shown as text."""
    from markdown_it import MarkdownIt

    return Section(address, title, {"html": MarkdownIt("commonmark", {"html": False}).enable("table").render(text)})
