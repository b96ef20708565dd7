"""A run without an item: which option left all of them out."""

from __future__ import annotations

import pytest

from conformance.harness.configuration.pytest_options import option
from conformance.settings import option_name


def reason(config: pytest.Config, keyword: str) -> str:
    """Which option left out all items; "" where none did. `keyword`: of -k, if it chose among items of the suite."""
    if keyword:
        return f"-k {keyword!r} selects no item; list all items with: pytest --collect-only -q"
    reasons = {
        "missing": "the run lacks no selected item",
        "audit": "no selected case opts out of anything",
        "affected-by": "no selected case executes what the edit changes",
    }
    return next((f"{option_name(each)}: {text}" for each, text in reasons.items() if option(config, each)), "")
