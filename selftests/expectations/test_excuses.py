"""Known failures that name problems: what they excuse, and tables that are refused."""

import pytest

from conformance.expectations.excuses import ExcuseError, parse
from conformance.expectations.known_failure_entry import KnownFailureError
from conformance.expectations.known_failures import load
from conformance.numerics.problem import Problem, WrongValues
from conformance.settings import KNOWN_CAUSES

ITEM = ("sum/sum", "numerics", "cpu_avx2", "2.13.0")
ENTRY = """
[[failure]]
case = "sum/sum"
check = "{check}"
target = "cpu_avx2"
torch = ">=2.11"
problems = [{problems}]
reason = "{reason}"
issue = "not reported"
"""
NAN = '{ call = "nan", tensor = "output", rule = "values", changes = "NaN → 0" }'
STRIDES = '{ call = ["first", "second"], tensor = "output", rule = "strides" }'
WRONG_NAN = Problem("output", "values", "", "nan", WrongValues({"NaN → 0": 1}, 0.1, 0.0))
WRONG_STRIDES = Problem("output", "strides", "", "first")


def loaded(folder, *entries, check="numerics"):
    texts = [ENTRY.format(check=check, problems=problems, reason=f"bug {n}") for n, problems in enumerate(entries, 1)]
    (folder / "sum.toml").write_text("".join(texts), encoding="utf-8")
    return load(folder)


def test_every_problem_must_be_named(tmp_path):
    known = loaded(tmp_path, NAN)
    assert known.match(*ITEM, "", "", [WRONG_NAN]).reason == "bug 1"
    assert known.match(*ITEM, "", "", [WRONG_NAN, WRONG_STRIDES]) is None
    assert known.match(*ITEM, "", "", []) is None
    assert known.unexcused("sum/sum", "cpu_avx2", "2.13.0", [WRONG_NAN, WRONG_STRIDES]) == [WRONG_STRIDES]


def test_an_error_excuses_no_problems(tmp_path):
    error = ENTRY.format(check="numerics", problems="", reason="bug").replace("problems = []", 'error = "elements"')
    (tmp_path / "sum.toml").write_text(error, encoding="utf-8")
    known = load(tmp_path)
    assert known.match(*ITEM, "RuntimeError: elements") is not None
    assert known.match(*ITEM, "NumericsError: 3 elements are wrong", "", [WRONG_NAN]) is None


def test_two_entries_share_the_problems_of_an_item(tmp_path):
    known = loaded(tmp_path, NAN, STRIDES)
    assert known.match(*ITEM, "", "", [WRONG_NAN, WRONG_STRIDES]).reason == "bug 1"
    assert known.idle_problem("sum/sum", "cpu_avx2", "2.13.0", [WRONG_NAN, WRONG_STRIDES]) is None


def test_an_entry_whose_bug_is_gone_is_noticed_beside_another_one(tmp_path):
    known = loaded(tmp_path, NAN, STRIDES)
    problem = known.idle_problem("sum/sum", "cpu_avx2", "2.13.0", [WRONG_NAN])
    assert problem.severity == "error"
    assert problem.message.startswith("sum.toml, failure 2: sum/sum on cpu_avx2 has no problem that the entry names")
    assert known.idle_problem("sum/sum", "cpu_avx2", "2.15.0", [WRONG_NAN]).severity == "notice"


def test_problems_are_those_of_numerics(tmp_path):
    with pytest.raises(KnownFailureError, match="'problems' are those of numerics, and check is 'compile'"):
        loaded(tmp_path, NAN, check="compile")
    both = ENTRY.format(check="numerics", problems=NAN, reason="bug").replace("problems", 'error = "x"\nproblems')
    (tmp_path / "sum.toml").write_text(both, encoding="utf-8")
    with pytest.raises(KnownFailureError, match="write either 'error'"):
        load(tmp_path)


TABLE = {"call": "nan", "tensor": "output", "rule": "values", "changes": "NaN → 0"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"call": "third"},
            "unknown call 'third'; known are first, second, next, expanded cotangents, permuted cotangents, sizes + 1",
        ),
        ({"call": []}, "call is []"),
        ({"rule": "speed"}, "rule is 'speed'; known are values"),
        ({"rule": "reference"}, "rule is 'reference'"),
        ({"rule": "strides"}, "'changes' says nothing about 'strides'; leave it out"),
        ({"rule": "raises"}, "'error' is missing, which 'raises' needs"),
        ({"changes": "NaN to 0"}, "write 'NaN → 0', with kinds of NaN, inf"),
        ({"changes": None}, "'changes' is missing, which 'values' needs"),
        ({"tensor": None}, "'tensor' is missing"),
        ({"off_by": "3"}, "off_by is '3'"),
        ({"share": 2}, "share is 2; write a number above 0, up to 1"),
        ({"group": "nan"}, "unknown key 'group'; the keys are call, tensor"),
    ],
)
def test_malformed_tables(change, text):
    table = {key: value for key, value in (TABLE | change).items() if value is not None}
    with pytest.raises(ExcuseError, match=r"^problem 2") as caught:
        parse([TABLE, table])
    assert text in str(caught.value)


@pytest.mark.parametrize("tables", [[], "NaN → 0", {}])
def test_what_is_no_list_of_tables(tables):
    with pytest.raises(ExcuseError, match="write a list of tables"):
        parse(tables)


@pytest.mark.parametrize(("call", "excused"), [("y: i64 → i32", True), ("beta: 1.0 → 0.0", True), ("nan", False)])
def test_refusals_are_known_for_undeclared_inputs_alone(call, excused):
    (cause,) = load(None, overlays=[str(KNOWN_CAUSES / "refusals")]).failures
    problem = Problem("", "raises", "eager raises ValueError: no\nsuch size, and compiled raised nothing", call)
    assert any(each.matches(problem) for each in cause.excuses) is excused
