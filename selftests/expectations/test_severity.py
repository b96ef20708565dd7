"""The severity of known bugs, computed from what their known failures excuse."""

import pytest

from conformance.cases.roots import OPS
from conformance.expectations import known_bugs, known_failures
from conformance.expectations.severity import Severity, severity

ENTRY = """
[[failure]]
case = "{case}"
check = "{check}"
target = "cpu_avx2"
torch = ">=2.11"
{what}
reason = "why"
issue = "not reported"
"""


def severity_of(tmp_path, what, check="numerics", case="sum/sum"):
    (tmp_path / "a.toml").write_text(ENTRY.format(what=what, check=check, case=case))
    return severity(known_failures.load(tmp_path).failures)


def problem(call, rule, **more):
    table = {"call": call, "rule": rule} | ({} if rule == "raises" else {"tensor": "output"}) | more
    return "problems = [{ " + ", ".join(f"{key} = {value!r}" for key, value in table.items()) + " }]"


WRONG, PROPERTIES, FAILS, EDGES = Severity


@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        (problem("first", "values", changes="number → number", off_by=2e-5), WRONG),
        (problem("first", "values", changes="number → number", off_by=1e-5), EDGES),
        (problem("first", "values", changes="0 → number", off_by=1.0), WRONG),
        (problem("first", "values", changes="0 → -0"), EDGES),
        (problem("first", "values", changes="number → NaN"), WRONG),
        (problem("expanded cotangents", "values", changes="number → 0", off_by=3), WRONG),
        (problem("sizes + 1", "values", changes="number → 0", off_by=3), WRONG),
        (problem("nan", "values", changes="NaN → number"), EDGES),
        (problem("full_range", "dtype"), EDGES),
        (problem("second", "outside write"), WRONG),
        (problem("first", "strides"), PROPERTIES),
        (problem("first", "dtype"), PROPERTIES),
        (problem("first", "raises", error="eager raises ValueError, and compiled raised nothing"), PROPERTIES),
        (problem("first", "raises", error="compiled raises IndexError: index 7"), FAILS),
        (problem("nan", "raises", error="compiled raises IndexError: index 7"), EDGES),
        ('error = "load out of bounds: element"', WRONG),
        ('error = "SIGFPE in a kernel"', FAILS),
    ],
)
def test_severity_of_a_failure(tmp_path, what, wanted):
    assert severity_of(tmp_path, what) == wanted


def test_a_load_that_is_in_no_binary_is_no_wrong_value(tmp_path):
    entry = ENTRY.format(what='error = "load out of bounds: element"', check="numerics", case="sum/sum")
    triage = '[failure.triage]\nright = "either"\nbecause = "the binary has no such load"\nsearched = "load"\n'
    (tmp_path / "a.toml").write_text(entry + triage)
    assert severity(known_failures.load(tmp_path).failures) == FAILS


def test_what_does_not_compile(tmp_path):
    assert severity_of(tmp_path, 'error = "KeyError: buf0"', check="compile") == FAILS


def test_ordinary_calls_with_every_value_of_a_dtype_show_edges(tmp_path):
    what = problem("first", "values", changes="NaN → number")
    assert severity_of(tmp_path, what, case="every_value/all") == EDGES


def test_the_worst_failure_of_a_bug_counts(tmp_path):
    entries = [problem("nan", "values", changes="NaN → 0"), problem("first", "strides")]
    (tmp_path / "a.toml").write_text("".join(ENTRY.format(what=w, check="numerics", case="sum/sum") for w in entries))
    (bug,) = known_bugs.bugs(known_failures.load(tmp_path).failures)
    assert bug.severity == PROPERTIES


def test_bugs_are_sorted_by_severity():
    found = [bug.severity for bug in known_bugs.bugs(known_failures.load(OPS.parent / "known_failures").failures)]
    assert found == sorted(found)
    assert set(found) == set(Severity)
