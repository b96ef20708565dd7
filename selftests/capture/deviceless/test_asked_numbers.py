"""Numbers of a pretended device say what is asked of them."""

from __future__ import annotations

import math
import operator

import pytest
import sympy

from conformance.capture.deviceless.asked_numbers import AskedNumber, Comparison, Step


@pytest.fixture
def asked():
    return {}


@pytest.fixture
def number(asked):
    return AskedNumber("multiprocessors", 108, asked.__setitem__)


def test_a_comparison_is_a_question_of_its_own(number, asked):
    assert number >= 100
    assert asked == {Comparison("multiprocessors", (Step(">=", 100),)): True}


def test_arithmetic_asks_nothing(number, asked):
    result = 3 + 2 * (number * 4 - 1) // 2 % 1000 - 5
    assert asked == {}
    assert result.value == 3 + 2 * (108 * 4 - 1) // 2 % 1000 - 5


COMPARISONS = {
    "less": (lambda n: n < 120, False),
    "on the right": (lambda n: 120 > n, False),  # noqa: SIM300
    "twice": (lambda n: n * 2 <= 216, False),
    "equal": (lambda n: n == 108, False),
    "unequal": (lambda n: n != 108, True),
    "subtracted": (lambda n: 1000 - n > 880, False),
    "product": (lambda n: 2 * 32 * n > 6000, True),
    "divisor": (lambda n: 1000 // n >= 9, False),
    "truth": (bool, True),
}

USES = {
    "int": (int, 108),
    "float": (float, 108.0),
    "repr": (repr, "108"),
    "format": (lambda n: f"{n:5}", "  108"),
    "C code that takes an integer": (lambda n: "%d" % n, "108"),  # noqa: UP031
    "range": (lambda n: list(range(n))[-1], 107),
    "dividend": (lambda n: n / 2, 54.0),
    "true divisor": (lambda n: 216 / n, 2.0),
    "negative": (operator.neg, -108),
    "C code that takes a float": (math.sqrt, math.sqrt(108)),
    "hash": (hash, hash(108)),
    "abs": (lambda n: abs(50 - n), 58),
    "difference from SymPy's": (lambda n: abs(sympy.Integer(3) - n), 105),
    "power": (lambda n: n**2, 108**2),
    "round up": (math.ceil, 108),
    "bits": (lambda n: n.bit_length(), 7),
    "divided by SymPy's": (lambda n: n / sympy.Integer(3), 36),
    "sum of two": (lambda n: n + n, 216),
    "compared with SymPy's": (lambda n: n > sympy.Integer(3), True),
    "multiplied with SymPy's": (lambda n: sympy.Integer(3) * n, 324),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_is_answered_for_another_device(number, asked, name):
    compare, elsewhere = COMPARISONS[name]
    here = compare(number)
    assert here == compare(108)
    [(question, answer)] = asked.items()
    assert answer == here
    assert question.answer(132) == compare(132) == elsewhere


@pytest.mark.parametrize("name", USES)
def test_other_uses_ask_for_the_number(number, asked, name):
    use, value = USES[name]
    assert use(number) == value
    assert asked["multiprocessors"] == 108
