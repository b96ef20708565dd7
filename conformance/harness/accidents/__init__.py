"""Accidents cost one item each: after a crash, a hang or a broken GPU, a fresh process runs the next items."""
