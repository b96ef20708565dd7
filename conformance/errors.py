"""The base of every error whose message is all that a user needs."""

from __future__ import annotations


class ConformanceError(Exception):
    """An error of this package. The message says what was wrong, and what would be right."""
