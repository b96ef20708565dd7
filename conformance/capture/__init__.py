"""Capture: compile a case for a target, once, and keep all that was generated.

Everything that touches torch's private parts lives in this package (and in facts/), each with its reason.
"""

from conformance.capture.compiling import Captured, capture
from conformance.capture.model import Capture, Exploration, Frame, Graph, Mode, Module

__all__ = ["Capture", "Captured", "Exploration", "Frame", "Graph", "Mode", "Module", "capture"]
