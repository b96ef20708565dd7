"""docs/kinds.md: its cases exist, its issue numbers have the right form, its counts are true; the script fits it."""

import re
import sys
from pathlib import Path

import pytest

from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kinds.md").read_text(encoding="utf-8")
HEADER = "| kind | what is wrong | issue | case | seen |"
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
    return script.rows(PAGE)


def test_every_line_of_a_table_is_a_row(rows):
    lines = [line for line in PAGE.partition(HEADER)[2].splitlines() if line.startswith("| `")]
    assert len(lines) == len(rows)
    assert len({row.kind for row in rows}) == len(rows)


def test_each_named_case_exists(rows):
    known = {case.id for case in cases_below([OPS])}
    assert [row.case for row in rows if row.case and row.case not in known] == []


def test_issues_and_last_columns_have_their_form(rows):
    assert [row for row in rows if not re.fullmatch(r"pytorch#\d{5,6}|not reported", row.issue)] == []
    assert [row for row in rows if not SEEN.fullmatch(row.seen)] == []
    assert [row for row in rows if (not row.case) != row.seen.startswith("none can: ")] == []


def test_the_counts_of_the_introduction_are_true(rows):
    cased = [row for row in rows if row.case]
    planted = [row for row in cased if row.seen == "planted"]
    present = [row for row in cased if row.seen.startswith("torch")]
    unseen = [row for row in cased if not row.seen]
    introduction = " ".join(PAGE.partition("\n## ")[0].split())
    for sentence in (
        f"This page has {len(rows)} kinds of wrong results",
        f"{len(cased)} kinds ({100 * len(cased) // len(rows)} %) have a case",
        f"For the other {len(rows) - len(cased)},",
        f"{len(planted) + len(present)} kinds were seen to make their case fail: {len(present)} because",
        f"{len(planted)} because the bug was planted",
        f"{len(unseen)} kinds have a case that was not seen to fail",
        f"on torch 2.13, all {len([row for row in rows if row.seen == 'planted' or row.is_in('2.13')])} such kinds",
        f"of {len([row for row in rows if row.seen == 'planted' or row.is_in('2.15')])} are found",
    ):
        assert sentence in introduction, sentence


def test_at_least_150_kinds_85_percent_with_a_case_and_60_seen(rows):
    assert len(rows) >= 150
    assert len([row for row in rows if row.case]) >= 0.85 * len(rows)
    assert len([row for row in rows if row.case and row.seen]) >= 60


def test_the_script_plants_what_the_page_calls_planted(rows, script):
    assert {row.kind for row in rows if row.seen == "planted"} == set(script.PLANTED)


def test_a_row_without_a_case_is_read(script):
    (row,) = script.rows("| `a-b` | It is wrong | pytorch#12345 | none | none can: it takes too long |\n")
    assert (row.kind, row.issue, row.case, row.is_in("2.13")) == ("a-b", "pytorch#12345", "", False)
