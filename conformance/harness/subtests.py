"""What pytest runs and reports: checks as subtests, and an item that fails for wrong declarations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from conformance.harness.accidents.native_stderr import kept
from conformance.harness.ending import junit


class SubtestReporter:
    """Reports each check as a subtest of pytest.

    `properties`: the properties of the test, for JUnit. `stderr_file`: a descriptor of the file that keeps stderr for
    the case of a crash; None where pytest captures none.
    """

    def __init__(
        self, subtests: pytest.Subtests, properties: list[tuple[str, object]], stderr_file: int | None = None
    ) -> None:
        self._subtests, self._properties, self._stderr_file = subtests, properties, stderr_file

    @contextlib.contextmanager
    def check(self, name: str) -> Iterator[None]:
        with (
            self._subtests.test(name),
            contextlib.nullcontext() if self._stderr_file is None else kept(self._stderr_file),
        ):
            yield

    def skip(self, reason: str) -> NoReturn:
        pytest.skip(reason)

    def known(self, reason: str) -> NoReturn:
        pytest.xfail(reason)

    def note(self, name: str, value: str) -> None:
        """Adds a property to the check's entry in JUnit XML. `name`: of the check."""
        self._properties.append((junit.PROPERTY + name, value))


class WrongDeclarationsItem(pytest.Item):
    """Fails in place of the items of a file, or of all that a worker collected: a worker cannot end the run."""

    def __init__(self, *, message: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._message = message

    def runtest(self) -> None:
        pytest.fail(self._message, pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
