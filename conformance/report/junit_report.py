"""A report as JUnit XML, for CI systems that read nothing else. docs/formats.md describes it.

pytest --junit-xml writes the same entries for one run while it runs. This one joins several runs.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator

from conformance.harness.ending.junit import FORMAT, PROPERTY
from conformance.report.columns import Cell, Cells
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, message_file

#: Characters that XML 1.0 cannot hold, in no form.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {
    Outcome.FAILED: "failure",
    Outcome.STALE: "failure",
    Outcome.KNOWN: "skipped",
    Outcome.SKIPPED: "skipped",
    Outcome.EXCLUDED: "skipped",
}


def junit_report(cells: Cells, title: str) -> str:
    """Returns the text of the file: a test suite for each torch release, with an entry for each check of each item.

    A known failure is skipped, with its reason. An item that was selected and did not run, or did not end, is an error.
    """
    root = ET.Element("testsuites", name=_text(title))
    for torch in dict.fromkeys(column.torch for column in cells.columns):
        found = sorted(
            (cell for cell in cells.cells.values() if cell.column.torch == torch),
            key=lambda each: (each.case, each.column.target),
        )
        root.append(_suite(torch, found))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(torch: str, cells: Iterable[Cell]) -> ET.Element:
    suite = ET.Element("testsuite", name=f"torch {torch}")
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name=f"{PROPERTY}format", value=str(FORMAT))
    ET.SubElement(properties, "property", name=f"{PROPERTY}torch", value=torch)
    seconds, counts = 0.0, Counter[str]()
    for cell in cells:
        seconds += cell.record.cpu_seconds if cell.record else 0.0
        for entry in _entries(cell):
            suite.append(entry)
            counts["tests"] += 1
            counts.update(child.tag for child in entry)
    suite.attrib |= {
        "tests": str(counts["tests"]),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": f"{seconds:.3f}",
    }
    return suite


def _entries(cell: Cell) -> Iterator[ET.Element]:
    if cell.record is None:
        yield _entry(cell, "compile", "error", "it was selected, and no run has a result of it")
        return
    for check, result in cell.record.checks.items():
        if result.detail == NOT_ENDED:
            yield _entry(cell, check, "error", f"{check} {NOT_ENDED}")
        elif result.outcome in _TAGS:
            yield _entry(cell, check, _TAGS[result.outcome], _reason(result), cell.artifact(message_file(check)))
        else:
            yield _entry(cell, check)


def _reason(result: CheckResult) -> str:
    return f"known failure: {result.detail}" if result.outcome is Outcome.KNOWN else result.detail


def _entry(cell: Cell, check: str, tag: str = "", message: str = "", text: str = "") -> ET.Element:
    """The entry of a check, as pytest names it: the test `test_hflip[…]` of the class `ops.test_flip.numerics`."""
    path, _, test = cell.node.partition("::")
    module = path.removesuffix(".py").replace("/", ".") or cell.case.partition("/")[0]
    name = test.replace("::", ".") or f"{cell.case}-{cell.column.target}"
    entry = ET.Element("testcase", classname=_text(f"{module}.{check}"), name=_text(name))
    if tag:
        child = ET.SubElement(entry, tag, message=_text(message))
        if tag == "skipped":
            child.set("type", "pytest.xfail" if message.startswith("known failure: ") else "pytest.skip")
        child.text = _text(text or message)
    return entry


def _text(text: str) -> str:
    return _ILLEGAL.sub(lambda found: f"#x{ord(found[0]):02X}", text)
