"""The search for a commit, with answers that are made up: nothing is compiled, and there is no repository."""

from __future__ import annotations

import math
import random

import pytest

from conformance.bisection import commit_search
from conformance.bisection.commit_search import NoCauseError, search

COMMITS = [f"c{number}" for number in range(64)]


class Made:
    """A history whose answer changes at `cause`. `unfit`: commits that cannot be measured. `irrelevant`: those that
    change nothing that is executed.
    """

    def __init__(self, cause, unfit=(), irrelevant=()):
        self.cause, self.unfit, self.irrelevant, self.measured = cause, set(unfit), set(irrelevant), []

    def measure(self, commit):
        self.measured.append(commit)
        if commit in self.unfit:
            return "skipped"
        return "changed" if COMMITS.index(commit) >= COMMITS.index(self.cause) else "good"

    def is_relevant(self, commit, _one, _other):
        return commit not in self.irrelevant

    def search(self):
        return search(COMMITS, "good", self.measure, self.is_relevant)


@pytest.mark.parametrize("cause", COMMITS)
def test_every_cause_is_found_in_the_fewest_steps(cause):
    made = Made(cause)
    found = made.search()
    assert found.suspects == [cause]
    assert len(made.measured) <= math.ceil(math.log2(len(COMMITS)))
    assert len(set(made.measured)) == len(made.measured)


def test_only_relevant_commits_are_measured():
    drawn = random.Random(1)
    cause = "c40"
    irrelevant = set(drawn.sample([each for each in COMMITS if each != cause], 48))
    made = Made(cause, irrelevant=irrelevant)
    assert made.search().suspects == [cause]
    assert not irrelevant & set(made.measured)
    assert len(made.measured) <= 4


@pytest.mark.parametrize("seed", range(30))
def test_commits_that_cannot_be_measured_are_skipped(seed):
    drawn = random.Random(seed)
    cause = drawn.choice(COMMITS)
    unfit = set(drawn.sample([each for each in COMMITS[:-1] if each != cause], 12))
    made = Made(cause, unfit)
    found = made.search()
    place = COMMITS.index(cause)
    before = place - 1
    while before >= 0 and COMMITS[before] in unfit:
        before -= 1
    assert found.suspects == COMMITS[before + 1 : place + 1]
    assert found.skipped == found.suspects[:-1]
    assert [commit for commit, verdict in found.tried if verdict == "skipped"] == [
        commit for commit in made.measured if commit in unfit
    ]


@pytest.mark.parametrize("cause", [each for each in COMMITS if each != "c31"])
def test_one_commit_that_is_skipped_costs_no_balance(cause):
    made = Made(cause, {"c31"})  # the first that is tried
    found = made.search()
    assert found.suspects[-1] == cause
    assert len([each for each in made.measured if each != "c31"]) <= 7


def test_a_cause_that_cannot_be_measured_leaves_all_that_it_may_be():
    found = Made("c20", {"c18", "c19", "c20", "c21"}).search()
    assert found.suspects == ["c18", "c19", "c20", "c21", "c22"]
    assert found.before == "c17"


def test_a_long_row_that_does_not_fit_is_left_soon():
    made = Made("c60", set(COMMITS[20:45]))
    assert made.search().suspects == ["c60"]
    assert sum(commit in made.unfit for commit in made.measured) <= 4


def test_a_commit_that_matters_only_in_the_middle_is_found():
    """What c30 changes is executed only between c20 and c40, so neither end shows that it may be the cause."""

    def measure(commit):
        place = COMMITS.index(commit)
        return "changed" if place >= 30 else "good"

    def is_relevant(commit, one, other):
        if commit == "c30":
            return {one, other} & set(COMMITS[20:40]) != set()
        return commit in ("c20", "c40")

    found = search(COMMITS[:41], "good", measure, is_relevant)
    assert found.suspects == ["c30"]


def test_no_relevant_commit_is_an_error_and_no_guess():
    with pytest.raises(NoCauseError):
        Made("c5", irrelevant=COMMITS).search()


def test_a_long_history_is_halved_before_its_commits_are_read(monkeypatch):
    monkeypatch.setattr(commit_search, "_COARSE", 10)
    read = []
    made = Made("c33")
    found = search(COMMITS, "good", made.measure, lambda commit, *_: read.append(commit) or True)
    assert found.suspects == ["c33"]
    assert len(set(read)) <= 10
