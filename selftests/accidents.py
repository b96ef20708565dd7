"""Planted accidents: suites whose items crash, hang or fill the disk in place of their checks. They need no torch."""

from __future__ import annotations

from pathlib import Path

from suites import NATIVE, Suite

from conformance.storage.runs import Run

#: An item's checks are replaced: so an accident takes milliseconds, and the limit of a hang can be short.
CONFTEST = r"""
import ctypes, os, signal, time
from conformance.harness.accidents import process_memory
from conformance.harness.item.checks import _ItemRun
from conformance.harness.session import Session

pytest_plugins = ["conformance.plugin"]
Session.set_up_torch = lambda self: None
process_memory.LIMIT = 200
kept = []

def planted(self):
    if self.case.labels[0] == "interrupted":  # outside of any check
        raise KeyboardInterrupt
    self._check("numerics", None, lambda: accident(self, self.case.labels[0]))

def accident(item, what):
    print("it runs", what)
    if what.startswith("segfault"):
        ctypes.string_at(0)
    elif what.startswith("abort"):
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.abort()
    elif what.startswith("loud"):
        os.write(2, b"native words\n")
        raise AssertionError("it fails")
    elif what.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    elif what.startswith("hang"):
        time.sleep(1000)
    elif what.startswith("exit"):
        os._exit(7)
    elif what.startswith("memory"):
        raise MemoryError("cannot allocate 99 GiB")
    elif what.startswith("break"):
        item.session.broken = f"{item.name} has broken the cuda context (device-side assert)"
        raise RuntimeError("CUDA error: device-side assert triggered")
    elif what.startswith("grow"):
        kept.append(bytearray(b"1") * (300 << 20))
    elif what.startswith("full"):
        item.record.text = os.urandom(300_000).hex()
    elif what.startswith("slow"):
        time.sleep(0.3)

_ItemRun._capture_and_check = planted
"""

#: The options of a run with one process, and with two workers.
PROCESSES = (("-n", "0"), ("-n", "2"))


def planted_suite(root: Path, *accidents: str) -> Suite:
    """A suite with an item for each accident, or for a name that is none, such as "fine"."""
    suite = Suite(root, CONFTEST)
    return with_items(suite, *accidents)


def with_items(suite: Suite, *accidents: str) -> Suite:
    lines = [
        "from conformance import case, tensor",
        "",
        f"@case(x=tensor(20), what={list(accidents)!r})",
        "def test_item(x, what):",
        "    return x",
    ]
    suite.write("ops/test_planted.py", "\n".join(lines))
    return suite


def options(*more: str) -> tuple[str, ...]:
    """Options of a run. `--kernels alone`: nothing is compiled, and the time limits of these tests are short."""
    return ("--target", NATIVE, "--checks", "numerics", "--kernels", "alone", *more)


def last_run(suite: Suite) -> Run:
    return Run(suite.root / ".conformance/runs/last")


def outcomes(suite: Suite) -> dict[str, str]:
    """What the last run recorded: accident → "passed", or the first line of the failure."""
    return {
        item.case.partition("-")[2]: " ".join(f"{check} {result}" for check, result in item.checks.items())
        for item in last_run(suite).items()
    }
