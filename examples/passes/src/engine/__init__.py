"""An inference engine: operators of its own, and a pass over Inductor's graphs that brings them in."""

from engine.layers import FeedForward, add_rms_norm
from engine.passes import COMPILED_WITH, AddRmsNormPass

__all__ = ["COMPILED_WITH", "AddRmsNormPass", "FeedForward", "add_rms_norm"]
