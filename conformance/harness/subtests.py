"""What pytest runs and reports: checks as subtests, and an item that fails for wrong declarations."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest


class SubtestReporter:
    """Reports each check as a subtest of pytest."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self._subtests = subtests

    def check(self, name: str) -> Any:
        return self._subtests.test(name)

    def skip(self, reason: str) -> NoReturn:
        pytest.skip(reason)

    def known(self, reason: str) -> NoReturn:
        pytest.xfail(reason)


class WrongDeclarationsItem(pytest.Item):
    """Fails in place of all items that a worker of pytest-xdist collected: a worker cannot end the run."""

    def __init__(self, *, message: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._message = message

    def runtest(self) -> None:
        pytest.fail(self._message, pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
