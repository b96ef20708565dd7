"""docs/upstream: texts about bugs that nobody has reported, ready to be filed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from conformance.cases.roots import OPS
from conformance.devices.environment import torch_build
from conformance.expectations import known_bugs, known_failures

PAGES = sorted((OPS.parents[1] / "docs" / "upstream").glob("*.md"))
EACH = pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
#: Page → the first torch whose error is the one of the page. Releases before it raise another one.
ERROR_SINCE = {"attention-with-a-whole-scale": (2, 15)}
#: Runs scripts in one process and prints the name and the error of each, as JSON.
RUN_ALL = """
import json, runpy, sys
import torch

for script in sys.argv[1:]:
    torch._dynamo.reset()
    try:
        runpy.run_path(script)
        error = "it ends without an error"
    except Exception as raised:  # each script raises another type
        error = str(raised)
    print(json.dumps([script, error]))
"""


def blocks(page: Path, language: str = "") -> list[str]:
    """The code blocks of a page in one language."""
    found = re.findall(r"^```(\w*)\n(.*?)\n```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


@pytest.fixture(scope="module")
def errors(tmp_path_factory) -> dict[str, str]:
    """Page → the error of its script."""
    folder = tmp_path_factory.mktemp("scripts")
    scripts = [folder / f"{page.stem}.py" for page in PAGES]
    for page, script in zip(PAGES, scripts, strict=True):
        script.write_text(blocks(page, "python")[0], encoding="utf-8")
    command = [sys.executable, "-c", RUN_ALL, *map(str, scripts)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    printed = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    return {Path(script).stem: error for script, error in printed}


@pytest.mark.long("a process without the package runs the script of each page")
@EACH
def test_the_script_raises_the_error_of_the_page(errors, page):
    wanted = blocks(page)[0].splitlines()[0].partition(": ")[2].replace("'", "")[:50]
    if torch_build().release < ERROR_SINCE.get(page.stem, (0, 0)):
        assert "list index out of range" in errors[page.stem]
    elif "AVX-512)" in page.read_text(encoding="utf-8") and torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("the sizes of the page are for vectors of AVX-512, which this CPU does not have")
    else:
        assert wanted in re.sub("['‘’]", "", errors[page.stem])


@EACH
def test_it_is_about_a_bug_that_is_not_reported(page):
    """Once the bug is reported, its entries name the issue, and the page goes."""
    first = page.read_text(encoding="utf-8").partition("\n")[0]
    reason = first.removeprefix("<!-- known failure: ").removesuffix(" -->")
    found = known_bugs.bugs(known_failures.load(OPS.parent / "known_failures").failures)
    bugs = [bug for bug in found if bug.reason == reason]
    assert bugs, f"no known failure has the reason {reason!r}"
    assert all(failure.issue == "not reported" for bug in bugs for failure in bug.failures)


def test_there_are_some():
    assert len(PAGES) >= 5
