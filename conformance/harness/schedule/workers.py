"""The workers of pytest-xdist: how many there are, which GPU each starts with, and who schedules them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest

from conformance.devices.machine import Machine
from conformance.harness.schedule import gpu_binding
from conformance.harness.schedule.batches import Batch


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def worker_count(config: pytest.Config) -> int:
    """The number of workers that the user asked for; 1 without any, and in a worker."""
    count = config.getoption("numprocesses", None)
    return count if isinstance(count, int) and count else 1


class Workers:
    """A plugin for the process that starts workers."""

    def __init__(self, machine: Machine, plan: functools.partial[list[Batch]]) -> None:
        self._machine, self._plan = machine, plan

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        gpu_binding.bind(self._machine, specs)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """None, which is pytest-xdist's own choice, with another --dist and where the user limits what is sent."""
        if config.getoption("dist") != "load" or config.getoption("maxschedchunk"):
            return None
        from conformance.harness.schedule.batch_scheduling import BatchScheduling

        return BatchScheduling(config, log, self._plan)
