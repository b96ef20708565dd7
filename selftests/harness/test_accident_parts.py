"""What an accident's message says, and when a GPU's context is broken."""

from __future__ import annotations

import pytest

from conformance.harness.accidents import device_health
from conformance.harness.accidents.device_health import DeviceState, device_state, is_out_of_memory
from conformance.harness.accidents.process_end import ProcessEnd, last_lines_of_stderr, python_stack

DUMP = """Fatal Python error: Segmentation fault

Thread 0x00007f4d1 (most recent call first):
  File "/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f4d0 (most recent call first):
  File "/suite/ops/test_flip.py", line 7 in crash
  File "/suite/conformance/harness/item/checks.py", line 200 in _check_numerics
  File "/suite/conformance/harness/item/checks.py", line 100 in run
  File "/lib/_pytest/python.py", line 1 in pytest_pyfunc_call

Extension modules: numpy._core (total: 1)
"""
TIMEOUT = """Timeout (0:00:03)!
Thread 0x00007f4d1 (most recent call first):
  File "/lib/python3.11/threading.py", line 324 in wait

Thread 0x00007f4d0 (most recent call first):
  File "/suite/ops/test_flip.py", line 9 in hang
"""


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ProcessEnd(-11, DUMP), "the process ended by SIGSEGV"),
        (ProcessEnd(-6), "the process ended by SIGABRT"),
        (ProcessEnd(-64), "the process ended by SIGRTMAX"),
        (ProcessEnd(1, TIMEOUT, 3), "time limit of 3 s exceeded (--item-timeout)"),
        (ProcessEnd(1), "the process ended itself with status 1"),
        (ProcessEnd(None), "the process ended"),
    ],
)
def test_reasons(end, reason):
    assert end.reason == reason


def test_the_last_lines_of_stderr():
    assert last_lines_of_stderr(DUMP) == []
    assert last_lines_of_stderr("what():  bad\n\n" + DUMP) == ["what():  bad"]
    assert last_lines_of_stderr("\n".join(map(str, range(99)))) == [str(number) for number in range(89, 99)]


def test_the_stack_is_that_of_the_item():
    crash = ["test_flip.py", "checks.py"]
    assert [frame.partition('",')[0].rpartition("/")[2] for frame in python_stack(DUMP)] == crash
    assert python_stack(TIMEOUT) == ['  File "/suite/ops/test_flip.py", line 9 in hang']
    assert python_stack("") == []
    deep = DUMP.replace("line 7 in crash", "line 7 in crash\n" + "\n".join(["  File …"] * 50))
    assert python_stack(deep)[-1] == "  … 32 more"


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        (["", ""], DeviceState()),
        (["invalid configuration argument", ""], DeviceState("invalid configuration argument", is_broken=False)),
        (["device-side assert triggered"] * 2, DeviceState("device-side assert triggered", is_broken=True)),
    ],
    ids=["healthy", "an error that is over", "broken"],
)
def test_the_state_of_a_device(monkeypatch, answers, state):
    """A broken context answers each call with its error."""
    left = list(answers)
    monkeypatch.setattr(device_health, "_synchronize", lambda _: left.pop(0))
    assert device_state("cuda") == state


class OutOfMemoryError(RuntimeError):
    """As torch calls it."""


def test_out_of_memory():
    wrapped = RuntimeError("backend failed")
    wrapped.__cause__ = OutOfMemoryError("CUDA out of memory")
    assert all(map(is_out_of_memory, (MemoryError(), OutOfMemoryError(), wrapped)))
    assert not is_out_of_memory(RuntimeError("CUDA error: an illegal memory access was encountered"))
