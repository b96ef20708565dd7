"""A request: what a capture is to give, whichever process makes it."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.capture.model import Mode
from conformance.capture.program import Program
from conformance.devices.targets import Target


@dataclass(frozen=True)
class CaptureRequest:
    """A capture of `program` for `target`, without the device unless `mode` says otherwise.

    `explore`: also record each graph at each stage, bytecode, guards and torch's logs. `emulate`: run the code for a
    missing GPU on the CPU. `texts`: with the nodes before fusion, which take 5 % of the time and cannot be recorded
    later. `defer_build`: the caller calls the result's `build` before it calls the compiled function; only native
    captures with C++ kernels defer. `counts_calls`: compile twice, and count the calls of the second compile
    (call_counts.py).
    """

    program: Program
    target: Target
    mode: Mode = "deviceless"
    explore: bool = False
    emulate: bool = False
    texts: bool = True
    defer_build: bool = False
    counts_calls: bool = False
