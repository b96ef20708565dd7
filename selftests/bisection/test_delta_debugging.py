"""Delta debugging with tests that are made up: the fewest parts that still say yes."""

from __future__ import annotations

import random

import pytest

from conformance.bisection.delta_debugging import minimise


@pytest.mark.parametrize("needed", [{3}, {0, 63}, {5, 6, 7}, {1, 20, 40, 60}, set(range(10))])
def test_exactly_the_needed_parts_are_left(needed):
    asked = []

    def test(chosen):
        asked.append(tuple(chosen))
        return "yes" if needed <= set(chosen) else "no"

    assert set(minimise(range(64), test)) == needed
    assert len(set(asked)) == len(asked), "nothing is asked twice"


def test_one_of_many_is_found_by_halves():
    asked = []

    def test(chosen):
        asked.append(chosen)
        return "yes" if 777 in chosen else "no"

    assert minimise(range(1024), test) == [777]
    assert len(asked) <= 21


@pytest.mark.parametrize("seed", range(20))
def test_parts_that_need_each_other_are_unresolved_alone(seed):
    """Part n fits only together with n + 1 for some n, as a function fits only with the one that it calls."""
    drawn = random.Random(seed)
    pairs = [(n, n + 1) for n in drawn.sample(range(0, 40, 2), 8)]
    cause = drawn.choice(pairs)[0]

    def test(chosen):
        if any(n in chosen and m not in chosen for n, m in pairs):
            return "unresolved"
        return "yes" if cause in chosen else "no"

    assert minimise(range(40), test) == [cause, cause + 1]


def test_what_is_left_is_minimal():
    def test(chosen):
        return "yes" if sum(chosen) >= 20 else "no"

    left = minimise([1, 2, 3, 4, 5, 6, 7], test)
    assert sum(left) >= 20
    assert all(sum(left) - each < 20 for each in left)


def test_the_limit_ends_it_with_what_it_has():
    asked = []

    def test(chosen):
        asked.append(chosen)
        return "yes" if {3, 50} <= set(chosen) else "no"

    left = minimise(range(64), test, limit=5)
    assert len(asked) == 5
    assert {3, 50} <= set(left)


def test_one_part_needs_no_test():
    assert minimise(["a"], lambda _: pytest.fail("asked")) == ["a"]
