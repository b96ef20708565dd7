"""What pytest is given of ours: checks as its subtests, and an item that fails in place of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest


class SubtestReporter:
    """Checks as pytest's subtests."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self._subtests = subtests

    def check(self, name: str) -> Any:
        return self._subtests.test(name)

    def skip(self, reason: str) -> NoReturn:
        pytest.skip(reason)

    def known(self, reason: str) -> NoReturn:
        pytest.xfail(reason)


class Refusal(pytest.Item):
    """In place of everything that a worker of pytest-xdist collected: it cannot end the run, but it can fail."""

    def __init__(self, *, why: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._why = why

    def runtest(self) -> None:
        pytest.fail(self._why, pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
