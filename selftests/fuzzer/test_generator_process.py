"""Programs from a process of their own: those of the generator, also where one goes on with another one."""

from __future__ import annotations

import pytest

from conformance.fuzzer.corpus import ROUND, Corpus
from conformance.fuzzer.generator import Generator
from conformance.fuzzer.generator_process import Programs
from conformance.fuzzer.parts import Parts, selected_by

CASES = """
from conformance import case, tensor

@case(x=tensor(4, 6), grad=True)
def test_sine(x):
    return x.sin() * 2

@case(x=tensor(4, 6), y=tensor(6))
def test_sum(x, y):
    return (x + y).sum(0)

@case(x=tensor(7))
def test_crash(x):
    import os
    os._exit(3)
"""


@pytest.fixture
def words(tmp_path):
    (tmp_path / "test_mine.py").write_text(CASES)
    return [str(tmp_path / "test_mine.py")]


def test_programs(words):
    cases = [case for case in selected_by(words) if "crash" not in case.id]
    ids = [case.id for case in cases]
    corpus = Corpus()
    with Programs(3, corpus, words, ids) as programs:
        first = [programs.program(number) for number in range(6)]
        here = [Generator(Parts(cases, lambda _case: ""), 3).program(number) for number in range(6)]
        assert [each and each.program.text for each in first] == [each and each.program.text for each in here]
        member = next(each.number for each in first if each is not None)
        corpus.end(member, "cpu_avx2", ["ir.py:1"])
        later = [programs.program(number) for number in range(2 * ROUND, 2 * ROUND + 8)]
    begun = [each for each in later if each is not None and each.parts[: len(here[member].parts)] == here[member].parts]
    assert begun
    assert all(len(each.plain.steps) > len(here[member].plain.steps) for each in begun)


def test_a_case_that_ends_the_process_is_no_program(words):
    ids = [case.id for case in selected_by(words)]
    with Programs(1, Corpus(), words, ids) as programs:
        made = [programs.program(number) for number in range(12)]
    assert any(each is None for each in made)
    assert any(each is not None for each in made)
