"""[failure.triage]: since when a bug exists, which result is right, and how upstream was searched."""

import pytest

from conformance.cases.roots import STORAGE_ROOTS
from conformance.expectations import known_bugs, known_failures
from conformance.expectations.known_failure_entry import KnownFailureError
from conformance.expectations.triage import Triage

ENTRY = """
[[failure]]
case = "sum/sum"
check = "numerics"
target = "cpu_avx2"
torch = ">=2.11"
problems = [{ call = "first", tensor = "output", rule = "strides" }]
reason = "why"
issue = "not reported"
reproduction = "assert False"
"""
FIELDS = {"right": "eager", "because": "the page says so.", "searched": "min bool inductor"}


def load(folder, fields):
    lines = "".join(f"{key} = {value!r}\n" for key, value in fields.items())
    (folder / "a.toml").write_text(f"{ENTRY}\n[failure.triage]\n{lines}")
    return known_failures.load(folder).failures


def test_what_is_optional(tmp_path):
    assert load(tmp_path, FIELDS)[0].triage == Triage("eager", "the page says so.", "min bool inductor")


def test_the_page(tmp_path):
    more = {"since": "2.6 or earlier", "source": "https://docs.pytorch.org/min"}
    page = "\n".join(known_bugs.markdown(known_bugs.bugs(load(tmp_path, FIELDS | more))))
    assert "- since torch 2.6 or earlier\n" in page
    assert "- right by the documentation: eager. the page says so. (<https://docs.pytorch.org/min>)\n" in page
    assert "[min bool inductor](https://github.com/pytorch/pytorch/issues?q=min+bool+inductor)" in page


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"right": "inductor"}, r"a\.toml, failure 1: triage: right is 'inductor'; write one of eager, compiled"),
        ({"since": "last year"}, "since is 'last year'; write a release such as '2.9'"),
        ({"source": "the docs"}, "source is 'the docs'; write the URL"),
        ({"because": " "}, "because is ' '; write text"),
        ({"why": "x"}, "unknown key 'why'; the keys are right, because, searched, since, source"),
    ],
)
def test_malformed(tmp_path, wrong, message):
    with pytest.raises(KnownFailureError, match=message):
        load(tmp_path, FIELDS | wrong)


@pytest.mark.parametrize("key", FIELDS)
def test_missing(tmp_path, key):
    with pytest.raises(KnownFailureError, match=f"triage: {key!r} is missing"):
        load(tmp_path, {name: value for name, value in FIELDS.items() if name != key})


def test_no_table(tmp_path):
    (tmp_path / "a.toml").write_text(f'{ENTRY}\ntriage = "eager"\n')
    with pytest.raises(KnownFailureError, match=r"triage is 'eager'; write a table \[failure.triage\]"):
        known_failures.load(tmp_path)


def test_each_bug_has_one_triage():
    failures = [each for root in STORAGE_ROOTS for each in known_failures.load(root / "known_failures").failures]
    counts = {bug.reason: sum(each.triage is not None for each in bug.failures) for bug in known_bugs.bugs(failures)}
    assert not {reason: count for reason, count in counts.items() if count != 1}


def test_each_bug_of_a_cpu_with_a_script_has_its_first_release():
    failures = [each for root in STORAGE_ROOTS for each in known_failures.load(root / "known_failures").failures]
    bugs = [bug for bug in known_bugs.bugs(failures) if bug.reproduction and bug.triage and not bug.triage.since]
    assert not [
        bug.reason for bug in bugs if any(name.startswith("cpu") for each in bug.failures for name in each.targets)
    ]
