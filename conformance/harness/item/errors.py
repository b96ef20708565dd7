"""What the checks of an item raise. The class's name is part of the recorded failure."""

from __future__ import annotations

from conformance.errors import ConformanceError, NotStoredError


class SkipError(Exception):
    """A check that does not apply; the message is the reason."""


class CodeError(ConformanceError, AssertionError):
    """Generated code that differs from the stored code."""


class NoStoredCodeError(NotStoredError, CodeError):
    """Generated code with which nothing can be compared yet."""


class DevicelessError(ConformanceError, AssertionError):
    """Code generated without the device that differs from the device's own code."""


class BitsError(ConformanceError, AssertionError):
    """Other bits, for no known reason, or where the baseline run has the same."""


class OutsideTensorError(ConformanceError):
    """Compiling raises because of what the author wrote: a tensor from outside, or an operator that lacks a kernel."""


class RaisedError(ConformanceError):
    """What compiling or a call raises, in its short form: see exception_text.py. Its cause is the exception."""


class DeviceError(ConformanceError, AssertionError):
    """An error that the device reports after the item, and that no check has met."""


class StaleKnownFailureError(ConformanceError, AssertionError):
    """A check that passes although a known failure says that it fails."""
