"""benchmarks/published_bugs.py: its list names scripts that are there, and docs/found.md is what it prints."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from published_bugs import (
    AGREES,
    ERROR,
    FOLDER,
    SHOWS,
    Bug,
    differing,
    keep_differing,
    load,
    load_results,
    page,
    releases,
)

from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS

BUGS = load()


def test_each_bug_has_a_script_that_shows_it():
    assert {bug.script for bug in BUGS.bugs} == set(FOLDER.glob("issue_*.py"))
    results = load_results()
    assert [bug.issue for bug in BUGS.bugs if not (bug.wrong and releases(results, bug))] == []


def test_each_bug_says_what_finds_it_or_what_is_missing():
    assert [bug.issue for bug in BUGS.bugs if not (bug.shown_by or bug.missing or bug.explore == "yes")] == []
    known = {case.id for case in cases_below([OPS])}
    assert {bug.shown_by for bug in BUGS.bugs if bug.shown_by} <= known


def test_a_part_of_explore_differs_on_a_release_with_its_bug():
    results = load_results()
    shown = [bug for bug in BUGS.bugs if bug.explore == "yes"]
    assert [bug.issue for bug in BUGS.bugs if bool(bug.part) != (bug.explore == "yes")] == []
    for bug in shown:
        measured = results["parts"][bug.part]
        assert {measured.get(version) for version in releases(results, bug)} & {SHOWS, ERROR}, bug.issue
        without = set(releases(results, bug, AGREES)) - {"2.1"}  # it has more bugs than the one
        assert SHOWS not in {measured.get(version) for version in without}, bug.issue


def test_parts_that_differ_nowhere_are_only_counted():
    results = {
        "parts": {"state: one": {"2.1": SHOWS, "2.5": AGREES}, "state: other": {"2.1": AGREES, "2.5": AGREES}},
        "measured": {"state": {"2.5": 7}},
    }
    keep_differing(results)
    assert results["parts"] == {"state: one": {"2.1": SHOWS, "2.5": AGREES}}
    assert results["measured"] == {"state": {"2.1": 2, "2.5": 7}}


def test_no_issue_is_listed_twice():
    issues = [bug.issue for bug in BUGS.bugs] + [issue for each in BUGS.left_out.values() for issue in each]
    assert len(issues) == len(set(issues))


def test_the_page_is_what_the_list_says():
    assert (FOLDER.parents[1] / "docs" / "found.md").read_text(encoding="utf-8") == page(BUGS, load_results())


def test_a_case_counts_where_it_differs_with_the_bug_alone():
    cases = cases_below([OPS / "test_flip.py"])
    one, other = [case.id for case in cases][:2]
    results = {
        "scripts": {"1": {"2.1": SHOWS, "2.5": "agrees"}},
        "cases": {one: {"2.1": SHOWS, "2.5": "agrees"}, other: {"2.1": SHOWS, "2.5": SHOWS}},
    }
    assert differing(results, Bug(1, "aliasing", cases=(one, other)), cases) == [one]
