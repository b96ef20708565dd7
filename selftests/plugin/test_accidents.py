"""An accident costs one item: it fails for that reason, and its neighbours run in a fresh process."""

from __future__ import annotations

import pytest
from accidents import PROCESSES, last_run, options, outcomes, planted_suite, with_items
from suites import NATIVE, Suite, section

ITEMS = ["fine1", "segfault1", "segfault2", "fine2", "kill", "fine3", "hang", "fine4", "exit", "fine5", "memory",
         "fine6", "break", "fine7", "abort", "loud"]  # fmt: skip
REASONS = {
    "segfault1": "the process ended by SIGSEGV",
    "segfault2": "the process ended by SIGSEGV",
    "kill": "the process was killed by SIGKILL: perhaps this machine ran out of memory (",
    "hang": "time limit of 3 s exceeded (--item-timeout)",
    "exit": "the process ended itself with status 7",
    "memory": "MemoryError: cannot allocate 99 GiB",
    "break": "RuntimeError: CUDA error: device-side assert triggered",
    "abort": "the process ended by SIGABRT",
    "loud": "AssertionError: it fails",
}


WORKERS_ARE_LONG = pytest.mark.parametrize(
    "processes",
    [
        PROCESSES[0],
        pytest.param(PROCESSES[1], marks=pytest.mark.long("it runs pytest with workers, each of which imports torch")),
    ],
    ids=" ".join,
)


@WORKERS_ARE_LONG
def test_every_accident(tmp_path, processes):
    suite = planted_suite(tmp_path, *ITEMS)
    ran, entries = suite.checks(*options(*processes, "--item-timeout", "3"))
    ran.ends(1)
    assert (ran.outcomes()["passed"], list(last_run(suite).selected().values())) == (
        7,
        [f"planted/item-{name}-{NATIVE}" for name in ITEMS],
    )
    recorded = outcomes(suite)
    assert set(recorded) == set(ITEMS)
    for name in ITEMS:
        if name in REASONS:
            assert recorded[name].startswith("numerics failed: "), name
            assert REASONS[name] in recorded[name]
        else:
            assert recorded[name] == "numerics passed"
    ran.has(f"{len(ITEMS)} items", "numerics passed: 7 ", "has broken the cuda context (device-side assert)")
    ran.has_not("not run:", "INTERNALERROR")
    in_junit = {name: (outcome, message) for _, name, outcome, message in entries}
    assert set(in_junit) == {f"test_item[{name}-{NATIVE}]" for name in ITEMS}
    for name in ITEMS:
        outcome, message = in_junit[f"test_item[{name}-{NATIVE}]"]
        assert outcome == ("failure" if name in REASONS else "passed")
        assert REASONS.get(name, "").partition(": ")[2] in message
    crash = section(ran, f"test_item[segfault1-{NATIVE}]")
    assert crash[:2] == ["the process ended by SIGSEGV, in: numerics", ""]
    assert "in string_at" in crash[3]
    assert "in accident" in crash[4]
    assert not [line for line in crash if "pluggy" in line], "frames of pytest"
    assert any("in accident" in line for line in section(ran, f"test_item[hang-{NATIVE}]"))
    lines = section(ran, f"test_item[abort-{NATIVE}]")
    assert lines[2:4] == ["last lines of stderr:", "terminate called after throwing an instance of 'std::bad_alloc'"]
    ran.has("Captured stderr call ", "\nnative words\n")


@WORKERS_ARE_LONG
def test_a_process_that_has_grown_is_replaced(tmp_path, processes):
    """A process keeps a part of all that it compiles. No item fails."""
    suite = planted_suite(tmp_path, "fine", "grow", "fine2", "fine3")
    ran = suite.run(*options(*processes)).ends(0)
    ran.has("the process has grown by 30", "MiB: a fresh process runs the next items")
    assert (ran.outcomes(), len(outcomes(suite))) == ({"passed": 4}, 4)


@WORKERS_ARE_LONG
def test_a_process_with_own_tests_is_kept(tmp_path, processes):
    """Else the fixtures of these tests would not be torn down."""
    suite = planted_suite(tmp_path, "fine", "grow", "fine2", "fine3")
    suite.write("ops/test_own.py", "def test_own():\n    pass\n")
    ran = suite.run(*options(*processes)).ends(0)
    ran.has_not("the process has grown by")
    assert ran.outcomes() == {"passed": 5}


@pytest.mark.long("processes of the run end, and each new one imports torch")
def test_a_scheduler_that_keeps_files_together(tmp_path):
    """It would run the crashed item again."""
    suite = planted_suite(tmp_path, "fine", "segfault", "fine2", "break", "fine3")
    ran = suite.run(*options("-n", "2", "--dist", "loadfile")).ends(1)
    assert len(outcomes(suite)) == 5
    assert (ran.outcomes()["passed"], ran.text.count("the process ended by SIGSEGV, in: numerics")) == (3, 2)


@pytest.mark.long("processes of the run end, and each new one imports torch")
@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_each_process_ends_at_once(tmp_path, processes):
    """The run gives up, says why, and names what did not run."""
    suite = planted_suite(tmp_path, *(f"segfault{number}" for number in range(14)))
    ran = suite.run(*options(*processes)).ends(2)
    ran.has("10 processes in a row ended before they finished an item")
    recorded = len(outcomes(suite))
    assert recorded in (10, 11), "another worker may crash at the same time"
    ran.has(f"not run: {14 - recorded} of the 14 selected items: planted/item-segfault")


def test_the_first_failure_ends_the_run(tmp_path):
    suite = planted_suite(tmp_path, "fine", "segfault", "fine2")
    ran = suite.run(*options("-x")).ends(1)
    ran.has("stopping after 1 failures", "not run: 1 of the 3 selected items: planted/item-fine2-")
    assert ran.outcomes() == {"failed": 1, "passed": 1}


def test_the_terminal_shows_each_item_once(tmp_path):
    """What a fresh process repeats is not shown again, and its time is that of the whole run."""
    suite = planted_suite(tmp_path, "fine", "hang", "fine2", "segfault", "fine3")
    ran = suite.run(*options("-v", "--item-timeout", "3")).ends(1)
    fine = [f"test_item[{name}-{NATIVE}] PASSED" for name in ("fine", "fine2", "fine3")]
    for line in ("collected 5 items", "test session starts", *fine):
        assert ran.text.count(line) == 1, line
    places = [ran.text.index(line) for line in (*fine[:2], "SIGSEGV", fine[2])]
    assert places == sorted(places)
    last = ran.text.splitlines()[-1]
    assert float(last.partition(" in ")[2].split("s")[0]) > 3


@pytest.mark.long("processes of the run end, and each new one imports torch")
@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_no_time_limit(tmp_path, processes):
    suite = planted_suite(tmp_path, "slow")
    suite.run(*options(*processes, "--item-timeout", "0.1")).ends(1).has("time limit of 0.1 s exceeded")
    suite.run(*options(*processes, "--item-timeout", "0")).ends(0)
    suite.run(*options("--item-timeout", "-1")).ends(4).has("--item-timeout -1: give seconds, or 0 for no limit")


def test_a_debugger_needs_one_process(tmp_path):
    suite = planted_suite(tmp_path, "slow")
    ran = suite.run(*options("--pdb", "--item-timeout", "0.1")).ends(0)
    ran.has("a crash ends this run, and items have no time limit, because of --pdb")


@WORKERS_ARE_LONG
def test_a_crash_while_pytest_collects(tmp_path, processes):
    suite = with_items(Suite(tmp_path), "fine")
    suite.write("ops/test_other.py", "import ctypes\nctypes.string_at(0)\n")
    ran = suite.run(*options(*processes))
    assert ran.status in (2, 3), ran.text
    ran.has(
        "SIGSEGV before it ran an item"
        if processes[1] == "0"
        else "processes in a row ended before they finished an item"
    )


CASE = """
import ctypes
import torch
from conformance import case, tensor

def crash(what):
    if what == "bad":
        ctypes.string_at(0)

@case(x=tensor(20), what=["good", "bad", "fine"])
def test_item(x, what):
    torch.compiler.disable(crash)(what)
    return x * 2
"""


@pytest.mark.long("processes of the run end, and each new one imports torch")
@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_a_crash_of_compiled_code(tmp_path, processes):
    """Without a plant in the harness: the function of the case crashes where compiled code calls it."""
    suite = Suite(tmp_path)
    suite.write("ops/test_crash.py", CASE)
    ran = suite.run(*options(*processes)).ends(1)
    assert outcomes(suite)["bad"] == "compile failed: AccidentError: the process ended by SIGSEGV"
    assert (outcomes(suite)["good"], outcomes(suite)["fine"]) == ("numerics passed", "numerics passed")
    ran.has("the process ended by SIGSEGV, in: compile, or the first call", "in crash")
