"""A run in batches: what a worker knows of its next items, the durations that a run keeps, and its progress."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from accidents import CONFTEST, PROCESSES, last_run, options, outcomes
from suites import NATIVE, environment
from suites import PreloadedSuite as Suite

#: Each item writes what is before it. Workers begin with an empty list.
LOOKAHEAD = """
import json
from conformance.harness.item import checks as harness_item

def recorded(self):
    upcoming = [f"{case.id}-{target.name}" for case, target in self.session.upcoming_items()]
    file = self.session.run.folder / f"upcoming-{os.getpid()}.jsonl"
    with file.open("a") as lines:
        lines.write(json.dumps([self.name, upcoming]) + "\\n")
    planted(self)

_ItemRun._capture_and_check = recorded
"""
#: Progress from the first item on.
AT_ONCE = """
from conformance.harness.schedule import progress_reporter
progress_reporter.INTERVAL = progress_reporter._SHORT_RUN = 0
"""
TWO_FILES = """
from conformance import case, tensor

@case(x=tensor(20), what=[f"fine{number}" for number in range(30)])
def test_item(x, what):
    return x

def test_other():
    pass
"""


def suite_of(root, *more: str) -> Suite:
    suite = Suite(root, CONFTEST + "".join(more))
    suite.write("ops/test_first.py", TWO_FILES)
    suite.write("ops/test_second.py", TWO_FILES)
    return suite


def recorded(suite: Suite) -> list[list[tuple[str, list[str]]]]:
    """For each process: the items that it ran, each with those that it expected next."""
    files = last_run(suite).folder.glob("upcoming-*.jsonl")
    return [[tuple(json.loads(line)) for line in file.read_text().splitlines()] for file in files]


def item_names(file: str, numbers: range) -> list[str]:
    return [f"{file}/item-fine{number}-{NATIVE}" for number in numbers]


def test_one_process_runs_whole_batches(tmp_path):
    suite = suite_of(tmp_path, LOOKAHEAD)
    suite.run(*options("-n", "0")).ends(0)
    (ran,) = recorded(suite)
    # the test that is no item stands in the second batch of its file, which has 16 tests
    batches = [item_names(file, numbers) for file in ("first", "second") for numbers in (range(16), range(16, 30))]
    assert ran == [(name, batch[place + 1 :]) for batch in batches for place, name in enumerate(batch)]


def test_workers_run_what_they_expect(tmp_path):
    """A worker names only items that it runs itself, and names nearly all of them."""
    suite = suite_of(tmp_path, LOOKAHEAD)
    suite.run(*options("-n", "2")).ends(0).has("60 items = 60 passed")
    processes = recorded(suite)
    assert len(processes) == 2
    for ran in processes:
        names = [name for name, _ in ran]
        for place, (_, upcoming) in enumerate(ran):
            assert upcoming == names[place + 1 :][: len(upcoming)]
        assert sum(bool(upcoming) for _, upcoming in ran) > len(ran) / 2
    assert sorted(name for ran in processes for name, _ in ran) == sorted(
        item_names("first", range(30)) + item_names("second", range(30))
    )


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
def test_a_crash_in_a_batch(tmp_path):
    suite = suite_of(tmp_path, LOOKAHEAD)
    numbers = 'f"fine{number}" for number'
    suite.write("ops/test_second.py", TWO_FILES.replace(numbers, '"fine" * number or "kill" for number'))
    ran = suite.run_alone(*options("-n", "2")).ends(1)  # a real worker: pytest-xdist sees at once how it ended
    ran.has("60 items = 59 passed + 1 failed")
    assert "SIGKILL" in outcomes(suite)["kill"]


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_the_next_run_knows_the_durations(tmp_path, processes):
    suite = suite_of(tmp_path)
    suite.run(*options(*processes)).ends(0)
    files = json.loads((tmp_path / ".conformance/durations.json").read_text())
    assert {file: len(tests) for file, tests in files.items()} == {"ops/test_first.py": 31, "ops/test_second.py": 31}
    assert 0 < files["ops/test_first.py"][f"test_item[fine3-{NATIVE}]"] < 10
    slow = dict.fromkeys(files["ops/test_second.py"], 100.0)
    (tmp_path / ".conformance/durations.json").write_text(json.dumps(files | {"ops/test_second.py": slow}))
    ran = suite.run(*options(*processes, "-v", "-k", "test_item")).ends(0)
    first = next(line for line in ran.text.splitlines() if "PASSED" in line and "::test_item" in line)
    assert ("test_second" in first) == (processes[1] != "0"), "with workers, what takes long begins first"
    assert json.loads((tmp_path / ".conformance/durations.json").read_text())["ops/test_second.py"]["test_other"] == 100


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
def test_another_scheduler_of_the_user(tmp_path):
    suite = suite_of(tmp_path)
    for more in (("--dist", "worksteal"), ("--maxschedchunk", "1"), ("--dist", "loadfile")):
        suite.run(*options("-n", "2", "-v", *more)).ends(0).has_not("BatchScheduling")
    suite.run(*options("-n", "2", "-v")).ends(0).has("scheduling tests via BatchScheduling")


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
@pytest.mark.parametrize("options_", [("-n", "0", "-q"), ("-n", "0", "-v"), ("-n", "2")], ids=" ".join)
def test_lines_in_a_log(tmp_path, options_):
    suite = suite_of(tmp_path, AT_ONCE)
    suite.write("ops/test_third.py", TWO_FILES.replace("fine", "memory"))
    ran = suite.run(*options(*options_)).ends(1)
    lines = ran.lines("conformance: ")
    assert [line for line in lines if line.endswith(" of 90 items, 30 failed")], lines[-3:]
    assert [
        line
        for line in lines
        if re.fullmatch(r"conformance: 5 of 90 items(, \d failed)?, about \d+ (seconds|minutes) left", line)
    ]
    ran.has_not("s left]")


def test_a_short_run_shows_no_progress(tmp_path):
    suite_of(tmp_path).run(*options("-n", "0")).ends(0).has_not(" left")


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
@pytest.mark.parametrize("options_", [(), ("-v",), ("-n", "2", "-q")], ids=" ".join)
def test_a_terminal(tmp_path, options_):
    """The time left stands beside pytest's percentage, and no line is longer than the terminal is wide."""
    suite = suite_of(tmp_path, AT_ONCE)
    text = in_terminal(suite, *options("-n", "0", *options_))
    assert re.search(r"\[ +\d+%, \d0 s left\]", text), text
    assert "[100%]" in text
    assert "conformance: 5 of" not in text
    plain = re.sub(r"\x1b\[[0-9;]*m|\x1b\][^\x1b]*\x1b\\", "", text)
    assert all(len(line.rpartition("\r")[2]) <= 80 for line in plain.splitlines() if line.endswith(" left]")), plain


def in_terminal(suite: Suite, *arguments: str) -> str:
    """What pytest writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=suite.root,
        env=environment({"COLUMNS": "80", "TERM": "xterm"}),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the last process has closed the terminal
            break
        if not chunk:
            break
        text += chunk
    os.close(ours)
    assert process.wait(timeout=100) == 0, text.decode()
    return text.decode().replace("\r\n", "\n")
