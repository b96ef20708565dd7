"""docs/upstream: texts about bugs that nobody has reported, ready to be filed."""

import re

import pytest

from conformance.cases.lookup import OPS
from conformance.expectations import known_bugs, known_failures

PAGES = sorted((OPS.parents[1] / "docs" / "upstream").glob("*.md"))


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_its_script_is_that_of_a_bug_that_is_not_reported(page):
    """Once the bug is reported, its entries name the issue, and the page goes."""
    (script,) = re.findall(r"```python\n(.*?)\n```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = known_bugs.bugs(known_failures.load(OPS.parent / "known_failures").failures)
    bugs = [bug for bug in found if bug.reproduction.strip() == script]
    assert bugs, f"no known failure has the script of {page.name}"
    assert all(failure.issue == "not reported" for bug in bugs for failure in bug.failures)


def test_there_are_some():
    assert len(PAGES) >= 5
