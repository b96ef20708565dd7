"""Ctrl-C, a killed pytest and a full disk: each selected item is accounted for, and the record stays readable."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from accidents import CONFTEST, PROCESSES, last_run, options, outcomes, planted_suite
from suites import Suite

SLOW = tuple(f"slow{number}" for number in range(40))


def started(suite: Suite, *arguments: str) -> subprocess.Popen[str]:
    """A run of which three items have ended."""
    process = suite.start(*options(*arguments))
    deadline = time.monotonic() + 60
    while len(list(suite.root.glob(".conformance/runs/*/items/planted/*.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


@pytest.mark.parametrize(
    "to_all",
    [True, pytest.param(False, marks=pytest.mark.long("it interrupts real processes after they have begun"))],
    ids=["group", "process"],
)
@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_ctrl_c(tmp_path, processes, to_all):
    """A terminal sends it to all processes, CI to the one that it started."""
    suite = planted_suite(tmp_path, *SLOW)
    process = started(suite, *processes)
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 2, text
    ended = outcomes(suite)
    assert set(ended.values()) == {"numerics passed"}
    assert 1 <= len(ended) < len(SLOW)
    assert f"not run: {len(SLOW) - len(ended)} of the {len(SLOW)} selected items: planted/item-slow" in text
    assert f"\n{len(SLOW)} items = {len(ended)} passed + {len(SLOW) - len(ended)} not run\n" in text
    assert "pytest reports" not in text


@pytest.mark.parametrize(
    ("hook", "passed"),
    [("tryfirst=True)\ndef pytest_runtest_call", 1), ("trylast=True)\ndef pytest_runtest_teardown", 2)],
    ids=["before the call", "after the call"],
)
def test_ctrl_c_between_two_steps_of_an_item(tmp_path, hook, passed):
    suite = planted_suite(tmp_path, "fine", "second", "third")
    interrupted = (
        f"import pytest\n@pytest.hookimpl({hook}(item):\n    if 'second' in item.name:\n        raise KeyboardInterrupt"
    )
    suite.write("conftest.py", f"{CONFTEST}\n{interrupted}")
    suite.run(*options("-n", "0")).ends(2).has(f"3 items = {passed} passed + {3 - passed} not run")
    assert list(outcomes(suite).values()) == ["numerics passed"] * passed


def test_ctrl_c_in_the_middle_of_an_item(tmp_path):
    suite = planted_suite(tmp_path, "fine", "interrupted", "third")
    suite.run(*options("-n", "0")).ends(2).has("3 items = 1 passed + 2 not run")
    assert list(outcomes(suite).values()) == ["numerics passed"]


def test_a_killed_pytest_leaves_no_process(tmp_path):
    suite = planted_suite(tmp_path, *SLOW)
    process = started(suite)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the process that ran the items is still there")


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / ".conformance"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.long("it runs pytest in real processes until the disk is full")
@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_a_full_disk(tmp_path, small_disk, processes):
    """The run ends: no later item could be recorded."""
    suite = planted_suite(tmp_path, *(f"full{number}" for number in range(20)))
    ran = suite.run(*options(*processes)).ends(2)
    ran.has("cannot be written to: No space left on device; not recorded: planted/item-full")
    ran.has_not("INTERNALERROR", "pytest reports", "direct cause")
    recorded = {name for name, outcome in outcomes(suite).items() if outcome == "numerics passed"}
    assert 1 <= len(recorded) < 20
    ran.has(f"not run: {20 - len(recorded)} of the 20 selected items: ")
    assert len(last_run(suite).selected()) == 20
