"""benchmarks/kinds.toml: its cases exist, its issue numbers have the right form; the script and the page fit it."""

import re
import sys
from pathlib import Path

import pytest

from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kinds.md").read_text(encoding="utf-8")
SEEN = re.compile(r"|planted|torch 2\.\d+(, 2\.\d+)*( on cuda| on a cuda device)?|none can: .+")


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import planted_kinds
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    return planted_kinds


@pytest.fixture(scope="module")
def rows(script):
    return script.kinds.kinds()


def test_the_page_has_each_kind_once(rows):
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE) == [row.name for row in rows]
    assert len({row.name for row in rows}) == len(rows)


def test_each_named_case_exists(rows):
    known = {case.id for case in cases_below([OPS])}
    assert [row.case for row in rows if row.case and row.case not in known] == []


def test_issues_and_last_columns_have_their_form(rows):
    assert [row for row in rows if not re.fullmatch(r"pytorch#\d{5,6}|not reported", row.issue)] == []
    assert [row for row in rows if not SEEN.fullmatch(row.seen)] == []
    assert [row for row in rows if (not row.case) != row.seen.startswith("none can: ")] == []


def test_the_counts(script, rows):
    text = " ".join(" ".join(script.kinds.counts(rows)).split())
    assert text.startswith(f"- {len(rows)} kinds of wrong results. ")
    numbers = [int(number) for number in re.findall(r"(\d+) (?:kinds|because)", text)]
    _, seen, present, planted, unseen = numbers
    assert seen == present + planted
    assert seen + unseen == len([row for row in rows if row.case])
    assert text in " ".join(PAGE.split())


def test_at_least_150_kinds_85_percent_with_a_case_and_60_seen(rows):
    assert len(rows) >= 150
    assert len([row for row in rows if row.case]) >= 0.85 * len(rows)
    assert len([row for row in rows if row.case and row.seen]) >= 60


def test_the_script_plants_what_the_page_calls_planted(rows, script):
    assert {row.name for row in rows if row.seen == "planted"} == set(script.PLANTED)


def test_a_kind_without_a_case(script):
    kind = script.kinds.Kind("Lowerings", "a-b", "It is wrong", "pytorch#12345", "", "none can: it takes too long")
    assert not kind.is_in("2.13")
    row = "| `a-b` | It is wrong | pytorch#12345 | none | none can: it takes too long |"
    assert script.kinds.tables([kind])[-1] == row
