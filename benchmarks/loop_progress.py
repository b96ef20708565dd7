"""A pytest plugin for loop.py: what the progress of a run says is left, whenever an item ends.

It writes [seconds at the beginning, at the end, [[seconds, seconds left], …]] into the file that LOOP_PROGRESS names.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest


class _Recorder:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = time.monotonic()
        self._samples: list[tuple[float, float]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        if not self._samples:
            self._began = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        self._samples.append((time.monotonic(), self._progress().seconds_left))

    def _progress(self) -> Any:
        plugins = self._config.pluginmanager.get_plugins()
        [reporter] = [each for each in plugins if type(each).__name__ == "ProgressReporter"]
        return reporter._progress  # noqa: SLF001 - it has no public way

    def pytest_sessionfinish(self) -> None:
        data = [self._began, self._samples[-1][0], self._samples]
        Path(os.environ["LOOP_PROGRESS"]).write_text(json.dumps(data), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config))
