"""Axes that vary one at a time: --thorough combines them pairwise."""

from __future__ import annotations

import itertools

import pytest
from suites import NATIVE
from suites import PreloadedSuite as Suite

from conformance import case, tensor
from conformance.cases.pairwise import pairwise_rows

AXES = [["a", "b", "c"], ["0", "1"], ["x", "y", "z"]]


def scaled(x, factor):
    return x * factor


scaled.__name__ = "test_scaled"  # @case wants the prefix, and pytest must not collect it


def test_pairs_cover_every_two_values():
    rows = [("a", "0", "x"), ("b", "0", "x")]
    added = list(pairwise_rows(AXES, rows))
    assert not set(added) & set(rows)
    for (one, left), (other, right) in itertools.combinations(enumerate(AXES), 2):
        for pair in itertools.product(left, right):
            assert any((row[one], row[other]) == pair for row in (*rows, *added))
    assert len(added) < 3 * 2 * 3 - 2
    assert added == list(pairwise_rows(AXES, rows))


@pytest.mark.skipif(not NATIVE, reason="no cpu target of the table is here")
def test_thorough_combines_what_varies_one_at_a_time(suite: Suite):
    declared = {"dtype": ["f32", "f16"], "layout": ["contiguous", "transposed"], "dynamic": [False, True]}
    test = case(x=tensor(4, 9), factor=2.5, vary="one_at_a_time", **declared)(scaled)
    ids = {each.id for each in test.cases}
    more = test.combined()
    assert all(each.combined and each.id not in ids for each in more)
    assert any(each.labels[:2] == ("f16", "transposed") for each in more)
    assert not case(x=tensor(4, 9), factor=2.5, **declared)(scaled).combined()
    suite.write(
        "ops/test_scale.py",
        "from conformance import case, tensor\n"
        '@case(x=tensor(20), dtype=["f32", "f16"], grad=[False, True], vary="one_at_a_time")\n'
        "def test_double(x):\n    return x * 2\n",
    )
    ran, checks = suite.checks("--target", NATIVE, "--thorough", "--checks", "numerics,code", "-k", "f16-backward")
    ran.ends(0)
    (message,) = (message for *_, outcome, message in checks if outcome == "skipped")
    assert message == "combined by --thorough: only declared cases have requirements and stored code"
