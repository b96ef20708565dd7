"""A run without an item: which option left all of them out, or that there are no cases here."""

from __future__ import annotations

import pytest

from conformance.harness.configuration.pytest_options import option
from conformance.settings import option_name

_NO_CASES = "no case was collected; those of the suite run with: pytest --pyargs conformance.ops"


def reason(config: pytest.Config, *, deselected: bool) -> str:
    """Why the suite has no item; "" where another plugin's option left all out. `deselected`: if pytest reports any."""
    keyword = config.option.keyword
    if keyword and (deselected or config.getoption("numprocesses", None)):  # workers do not report what they leave out
        return f"-k {keyword!r} selects no item; list all items with: pytest --collect-only -q"
    reasons = {
        "missing": "the run lacks no selected item",
        "audit": "no selected case opts out of anything",
        "affected-by": "no selected case executes what the edit changes",
    }
    chosen = [f"{option_name(each)}: {text}" for each, text in reasons.items() if option(config, each)]
    is_chosen = deselected or any(config.getoption(name, None) for name in ("markexpr", "splits"))
    return next(iter(chosen), "" if is_chosen else _NO_CASES)
