"""A request: what a capture is to give, whichever process makes it."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.capture.model import Mode
from conformance.cases.case import Case
from conformance.devices.targets import Target


@dataclass(frozen=True)
class CaptureRequest:
    """A capture of `case` for `target`, without the device unless `mode` says otherwise.

    `form`: what of the case torch.compile gets, one of compiled_forms.FORMS. `explore`: also record each graph at each
    stage, bytecode, guards and torch's logs. `emulate`: run the code for a missing GPU on the CPU. `texts`: with the
    nodes before fusion, which take 5 % of the time and cannot be recorded later, and from the GPU-free worker with
    graphs. `defer_build`: the caller calls the result's `build` before it calls the compiled function; only native
    captures with C++ kernels defer. `counts_calls`: compile twice, and count the calls of the second compile
    (call_counts.py).

    Of the GPU-free worker alone: `shares`: a capture of another target will do if it is the same and nothing else is
    asked for. `audit`: with `emulate`, also judge the case's opt-outs. `other_inputs`: with `emulate`, also compile the
    case with other inputs (cases/other_inputs.py). `repeats`: compile so many repetitions of the function
    (cases/repeated_case.py).
    """

    case: Case
    target: Target
    mode: Mode = "deviceless"
    form: str = "whole"
    explore: bool = False
    emulate: bool = False
    texts: bool = True
    defer_build: bool = False
    shares: bool = False
    audit: bool = False
    other_inputs: bool = False
    counts_calls: bool = False
    repeats: int = 1
