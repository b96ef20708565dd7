"""The corpus: who executed new lines, independent of the order in time."""

from __future__ import annotations

from conformance.fuzzer.corpus import ROUND, Corpus


def test_the_first_two_rounds_go_on_with_nothing():
    corpus = Corpus()
    corpus.begin(0, "cpu_avx2")
    assert corpus.is_ready(2 * ROUND - 1)
    assert corpus.members(2 * ROUND - 1) == ()


def test_a_round_waits_for_the_one_before_the_last():
    corpus = Corpus()
    corpus.begin(ROUND - 1, "cpu_avx2")
    corpus.begin(ROUND - 1, "cuda_sm90")
    corpus.end(ROUND - 1, "cpu_avx2", ["ir.py:1"])
    assert not corpus.is_ready(2 * ROUND)
    corpus.end(ROUND - 1, "cuda_sm90", [])
    corpus.begin(ROUND, "cpu_avx2")
    assert corpus.is_ready(2 * ROUND)
    assert corpus.members(2 * ROUND) == (ROUND - 1,)


def test_members_have_lines_that_no_program_before_them_has():
    lines = {3: ["ir.py:1", "ir.py:2"], 5: ["ir.py:2"], 8: ["ir.py:2", "ir.py:3"], 9: []}
    for order in (sorted(lines), sorted(lines, reverse=True)):
        corpus = Corpus()
        for number in order:
            corpus.end(number, "cpu_avx2", lines[number])
        assert corpus.members(2 * ROUND) == (3, 8)
