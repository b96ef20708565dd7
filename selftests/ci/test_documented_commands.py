"""The commands that pages show: which are found, and which of them ci/documented_commands.py runs."""

from __future__ import annotations

import sys

import pytest
from suites import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "ci"))

import documented_commands

PAGE = """# Page

```
pytest -n auto --save-run all     # a comment
python -m conformance show CASE   # a placeholder
```

```console
$ python -m conformance doctor
pytest is named by the output
```

<!-- not run: it needs a GPU -->
```
pytest --device cpu
```

```python
pytest = 1
```
"""


def test_commands_of_a_page_are_found_with_their_lines_and_reasons():
    found = documented_commands.commands("page.md", PAGE)
    assert [(each.line, each.text, each.why_not) for each in found] == [
        (4, "pytest -n auto --save-run all", ""),
        (5, "python -m conformance show CASE", "it has a placeholder"),
        (9, "python -m conformance doctor", ""),
        (15, "pytest --device cpu", "it needs a GPU"),
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -m conformance doctor", ["python", "-m", "conformance", "doctor"]),
        ("pytest --pyargs conformance.ops", ["pytest", "--pyargs", "conformance.ops", *documented_commands.REDUCED]),
    ],
)
def test_a_run_of_the_suite_is_reduced(command, words):
    assert documented_commands.reduced(command) == words


def test_the_readme_has_commands_that_run():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    run = [each.text for each in documented_commands.commands("README.md", readme) if not each.why_not]
    assert "python -m conformance doctor" in run
