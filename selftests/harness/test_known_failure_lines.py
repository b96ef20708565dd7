"""The end of a run counts its known failures by severity."""

from conformance.expectations import known_failures
from conformance.harness.item.known_failure_lines import known_failure_lines
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord

ENTRY = """
[[failure]]
case = "{case}"
check = "{check}"
target = "cpu_avx2"
torch = ">=2.11"
{what}
reason = "{reason}"
issue = "not reported"
"""
STRIDES = 'problems = [{ call = "first", tensor = "output", rule = "strides" }]'
VALUES = 'problems = [{ call = "first", tensor = "output", rule = "values", changes = "number → NaN" }]'


def item(case, **checks):
    results = {check: CheckResult(Outcome.KNOWN, reason) for check, reason in checks.items()}
    return ItemRecord(case, "cpu_avx2", "native", "2.13.0", "", checks=results)


def lines(tmp_path, *items):
    (tmp_path / "a.toml").write_text(
        ENTRY.format(case="a/a", check="numerics", what=STRIDES, reason="strides of a")
        + ENTRY.format(case="a/b", check="numerics", what=VALUES, reason="values of b")
        + ENTRY.format(case="a/b", check="compile", what='error = "KeyError: buf7"', reason="b fails")
    )
    return known_failure_lines([(items, known_failures.load(tmp_path))])


def test_the_most_severe_come_first(tmp_path):
    assert lines(tmp_path, item("a/a", numerics="strides of a"), item("a/b", numerics="values of b")) == [
        "known failures: 2 items with 2 bugs; `python -m conformance list --bugs` lists them, the most severe first",
        "  wrong values in ordinary use: 1 item, 1 bug; most often: values of b",
        "  wrong dtype, strides or missing errors: 1 item, 1 bug; most often: strides of a",
    ]


def test_an_item_counts_for_its_worst_bug(tmp_path):
    assert lines(tmp_path, item("a/b", compile="not run: b fails", numerics="values of b")) == [
        "known failures: 1 item with 2 bugs; `python -m conformance list --bugs` lists them, the most severe first",
        "  wrong values in ordinary use: 1 item, 1 bug; most often: values of b",
        "  does not compile, or raises: 0 items, 1 bug; most often: b fails",
    ]


def test_nothing_known(tmp_path):
    assert lines(tmp_path, ItemRecord("a/a", "cpu_avx2", "native", "2.13.0", "")) == []
