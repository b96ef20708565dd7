"""How a process ended while it ran an item, in words; and the record of that item."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from conformance.errors import ConformanceError
from conformance.settings import option_name
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, ItemRecord, Run

#: After so many processes in a row that ended before they finished an item, the run ends: every item would end so.
MAX_ENDS_IN_A_ROW = 10
#: How many frames of the Python stack a message shows.
_FRAMES = 20
#: How many lines of stderr a message shows.
_LINES = 10
#: What faulthandler writes first: when a time limit is over, and for a signal.
_TIMEOUT, _FATAL = "Timeout (", "Fatal Python error: "
#: Where a stack leaves the item: the frames that called this one are pytest's.
_OUTERMOST = "conformance/harness/item/checks.py"
_INNERMOST_FUNCTION = "in run"


class AccidentError(ConformanceError, RuntimeError):
    """The process ended while it ran an item. The message says how, and shows the Python stack."""


@dataclass(frozen=True)
class ProcessEnd:
    """`status`: the exit status, -N for signal N, None if unknown. `dump`: what faulthandler wrote.

    `limit`: the time limit of an item, in seconds.
    """

    status: int | None
    dump: str = ""
    limit: float = 0

    @property
    def reason(self) -> str:
        """How the process ended, in one line."""
        if _TIMEOUT in self.dump:
            return f"time limit of {self.limit:g} s exceeded ({option_name('item-timeout')})"
        if self.status is None:
            return "the process ended"
        if self.status >= 0:
            return f"the process ended itself with status {self.status}"
        name = _signal_name(-self.status)
        if -self.status == signal.SIGKILL:
            return (
                f"the process was killed by {name}: perhaps this machine ran out of memory ({_host_memory():.0f} GiB)"
            )
        return f"the process ended by {name}"

    def message(self, where: str) -> str:
        """The message of the item that ran. `where`: the check that ran."""
        where = "compile, or the first call" if where == "compile" else where
        lines = [f"{self.reason}, in: {where}"]
        if stderr := last_lines_of_stderr(self.dump):
            lines += ["", "last lines of stderr:", *stderr]
        if stack := python_stack(self.dump):
            lines += ["", "Python stack (most recent call first):", *stack]
        return "\n".join(lines)


#: How the detail of a check begins where the process ended.
_PREFIX = AccidentError.__name__


def python_stack(dump: str) -> list[str]:
    """The frames of the thread that ran the item, without pytest's, out of what faulthandler wrote."""
    stacks: list[list[str]] = []
    current = None
    for line in dump.splitlines():
        if "(most recent call first)" in line:
            stacks.append([])
            if line.startswith("Current thread"):
                current = stacks[-1]
        elif line.startswith("  ") and stacks:
            stacks[-1].append(line)
    frames = current or (stacks[-1] if stacks else [])  # after a time limit, the main thread is the last one
    for number, frame in enumerate(frames):
        if _OUTERMOST in frame and frame.endswith(_INNERMOST_FUNCTION):
            frames = frames[:number]
            break
    more = len(frames) - _FRAMES
    return frames[:_FRAMES] + ([f"  … {more} more"] if more > 0 else [])


def last_lines_of_stderr(dump: str) -> list[str]:
    """What native code wrote to the same file before faulthandler did."""
    lines = []
    for line in dump.splitlines():
        if line.startswith((_TIMEOUT, _FATAL)):
            break
        lines.append(line)
    return [line for line in lines if line.strip()][-_LINES:]


def is_accident(record: ItemRecord | None) -> bool:
    """Whether a process ended while it ran the item."""
    return record is not None and any(each.detail.startswith(f"{_PREFIX}: ") for each in record.checks.values())


def record_accident(run: Run, node_id: str, end: ProcessEnd) -> str:
    """Writes the end of the process into the record of the item that ran. Returns the message for its report."""
    name = run.selected().get(node_id, "")
    record = run.item_named(name) if name else None
    check = "test"
    if record is not None:
        result = CheckResult(Outcome.FAILED, f"{_PREFIX}: {end.reason}")
        running = (NOT_ENDED, result.detail)  # the latter, where an earlier process has recorded it
        check = next((check for check, each in record.checks.items() if each.detail in running), "compile")
        record.checks[check] = result
        run.write_item(record)
    return end.message(check)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _host_memory() -> float:
    """This machine's memory in GiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
