"""A result: the capture that a request asked for, and what else its process found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.capture.deviceless.device_queries import DeviceQueries
from conformance.capture.emulation.extents import Report
from conformance.capture.model import Capture


def build_nothing() -> None:
    """The `build` of a result whose kernels are compiled already."""


@dataclass
class CaptureResult:
    """A capture and, if the code runs here, the compiled function.

    `compiled`: call it with the case's arguments. None if the code runs neither natively nor emulated in this process.
    `worker_numerics`: only where the GPU-free worker emulated the code. Returns the lines that say what the numerics
    check compared there, or raises what the check raised.
    `build`: compiles and loads the kernels and calls them once, if the request deferred that. Raises what that raises.
    Before it is called, `compiled` runs the lowered graph eagerly.
    `queries`: what torch has asked the pretended device so far. None without one.
    `shared_with`: the target that the capture was made for, if it is the same for this one; see shared_captures.py.
    `extents`: returns what the emulated kernels ran so far; nothing without emulation.
    `judgements`: of the case's opt-outs, where the GPU-free worker judged them; see numerics/audit.py.
    `error_profiles`: where that worker checked numerics, see numerics/error_profile.py.
    """

    capture: Capture
    compiled: Callable[..., Any] | None = None
    worker_numerics: Callable[[], list[str]] | None = None
    build: Callable[[], None] = build_nothing
    queries: DeviceQueries | None = None
    shared_with: str = ""
    extents: Callable[[], Report] = Report
    judgements: Sequence[Any] = ()
    error_profiles: Sequence[Any] = ()
