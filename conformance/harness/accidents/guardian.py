"""The guardian: the process that the user started. It runs pytest in a child process, and in a fresh one after a crash.

The guardian forks before torch is imported, and only waits. The child is pytest as usual: it has the terminal, so its
output, `breakpoint()` and Ctrl-C are the same as without a guardian. It sends each report to the guardian. A fresh
child gets these reports back, repeats them without output, and runs the remaining items.

With pytest-xdist's workers there is no guardian: pytest-xdist starts a new worker, see worker_crashes.py.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from conformance.harness.accidents.process_end import MAX_ENDS_IN_A_ROW, ProcessEnd

#: The signals that the guardian passes on to the child.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HEADER = struct.Struct("<cI")
_POLL = 0.2  # seconds
_PR_SET_PDEATHSIG = 1
#: pytest's status for an internal error.
_INTERNAL_ERROR = 3

#: Kinds of messages. Their payloads: the run's folder and machine; the time of the start; a node id; a report; a node
#: id; a reason; nothing.
SESSION, COLLECTED, BEGUN, REPORT, ENDED, RETIRED, DONE = b"s", b"c", b"b", b"r", b"e", b"x", b"d"


@dataclass
class Past:
    """What earlier child processes did.

    `session`: what the first one sent when its session began. `start`: pytest's record of that time. `reports`: node
    id → its reports, pickled. `ended`: node ids of finished items. `accidents`: node id → how the process ended while
    it ran. `give_up`: why no further item may run; "" as long as they may.
    """

    session: Any = None
    start: Any = None
    reports: dict[str, list[bytes]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    accidents: dict[str, ProcessEnd] = field(default_factory=dict)
    give_up: str = ""


class Link:
    """The child's connection to its guardian. `dump`: a descriptor for faulthandler. `guardian`: its process id."""

    def __init__(self, pipe: int, dump: int, past: Past, guardian: int) -> None:
        self._pipe, self.dump, self.past, self.guardian = pipe, dump, past, guardian

    @property
    def is_resumed(self) -> bool:
        """Whether earlier processes ran a part of the items."""
        return self.past.session is not None

    def send(self, kind: bytes, payload: Any = None) -> None:
        data = pickle.dumps(payload)
        view = memoryview(_HEADER.pack(kind, len(data)) + data)
        while view:
            view = view[os.write(self._pipe, view) :]


def fork_guarded(limit: float) -> Link:
    """Returns in a child process, and in a further one each time that a child ends by accident.

    The process that calls it becomes the guardian: there, the function never returns. It ends with the exit status of
    its last child. `limit`: the time limit of an item in seconds, for messages.
    """
    return _Guardian(limit).run()


def problem() -> str:
    """Why this process cannot be forked; "" if it can."""
    if not hasattr(os, "pidfd_open"):
        return "this system cannot watch a process"
    if sys.gettrace() is not None:
        return "a debugger or a tool for coverage traces this process"
    if threading.active_count() > 1:
        return "this process has threads"
    torch = sys.modules.get("torch")
    if torch is not None and any(getattr(torch, device).is_initialized() for device in ("cuda", "xpu")):
        return "torch uses a GPU already"
    return ""


class _Guardian:
    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._past = Past()
        self._dump = os.memfd_create("stacks")
        self._ends_in_a_row = 0
        self._signalled = 0
        # State of the child that runs now:
        self._collected = self._done = False
        self._item = self._retired = ""

    def run(self) -> Link:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        guardian = os.getpid()
        while True:
            self._collected = self._done = False
            self._item = self._retired = ""
            os.ftruncate(self._dump, 0)
            os.lseek(self._dump, 0, os.SEEK_SET)
            reading, writing = os.pipe()
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if not child:
                os.close(reading)
                end_with(guardian)
                _merge_double_interrupts()
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                return Link(writing, self._dump, self._past, guardian)
            os.close(writing)
            status = self._watch(child, reading)
            os.close(reading)
            self._continue_or_exit(status)

    def _watch(self, child: int, reading: int) -> int:
        """Reads what the child sends, until it ends. Returns its status."""
        ended = os.pidfd_open(child)
        unread, sources = bytearray(), [reading, ended]
        while True:
            ready = select.select(sources, [], [], _POLL)[0]
            if reading in ready:
                chunk = os.read(reading, 1 << 16)
                unread += chunk
                self._take_messages(unread)
                if not chunk:
                    sources.remove(reading)
            elif ended in ready:
                break
            self._pass_signals_on(child)
        os.close(ended)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _pass_signals_on(self, child: int) -> None:
        while info := signal.sigtimedwait(_SIGNALS, 0):
            if info.si_signo != signal.SIGINT:
                self._signalled = info.si_signo
            if info.si_pid:  # the kernel (0) sends Ctrl-C to the child too
                os.kill(child, info.si_signo)

    def _take_messages(self, unread: bytearray) -> None:
        while len(unread) >= _HEADER.size:
            kind, size = _HEADER.unpack_from(unread)
            if len(unread) < _HEADER.size + size:
                return
            payload = bytes(unread[_HEADER.size : _HEADER.size + size])
            del unread[: _HEADER.size + size]
            self._take(kind, payload)

    def _take(self, kind: bytes, payload: bytes) -> None:
        if kind == REPORT:
            self._past.reports.setdefault(self._item, []).append(payload)
            return
        value = pickle.loads(payload)  # noqa: S301 - this run's own child wrote it
        if kind == SESSION:
            self._past.session = value
        elif kind == COLLECTED:
            self._collected, self._past.start = True, value
        elif kind == BEGUN:
            self._item = value
        elif kind == ENDED:
            self._past.ended.add(value)
            self._item, self._ends_in_a_row = "", 0
        elif kind == RETIRED:
            self._retired = value
        elif kind == DONE:
            self._done = True

    def _continue_or_exit(self, status: int) -> None:
        """Returns if a fresh child must go on. Otherwise ends this process."""
        if self._signalled:
            _exit(128 + self._signalled)
        if self._done or self._past.give_up:
            _exit(status if status >= 0 else 128 - status)
        if self._retired:
            print(f"\nconformance: {self._retired}: a fresh process runs the next items")
            return
        end = ProcessEnd(status, self._read_dump(), self._limit)
        if not self._collected:
            print(f"\nconformance: {end.reason} before it ran an item: no further item runs", file=sys.stderr)
            sys.stderr.write(end.dump)
            _exit(_INTERNAL_ERROR)
        self._ends_in_a_row += 1
        if self._item:
            self._past.accidents[self._item] = end
            print(f"\nconformance: {end.reason}, in {self._item}: a fresh process runs the next items")
        else:
            print(f"\nconformance: {end.reason} between two items: a fresh process runs the next items")
        if self._ends_in_a_row >= MAX_ENDS_IN_A_ROW:
            reason = f"{self._ends_in_a_row} processes in a row ended before they finished an item"
            self._past.give_up = f"{reason}; the last one: {end.reason}"

    def _read_dump(self) -> str:
        return os.pread(self._dump, 1 << 16, 0).decode(errors="replace")


def _exit(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the child has run the exit handlers


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Makes the kernel send this process a signal when its parent ends, also when that is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(128 + number)


def _merge_double_interrupts() -> None:
    """Ignores a SIGINT within a second after another: `kill` of the process group sends one here, the guardian another.

    pytest takes a second KeyboardInterrupt for the wish to end without a summary.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, _first_interrupt(signal.default_int_handler))


def _first_interrupt(handler: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
    last = [float("-inf")]

    def interrupt(number: int, frame: FrameType | None) -> Any:
        __tracebackhide__ = True  # pytest shows the line that was interrupted
        before, last[0] = last[0], time.monotonic()
        return handler(number, frame) if last[0] - before > 1 else None

    return interrupt
