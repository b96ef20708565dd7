"""Registers the plugins that schedule a run: in the process that the user started, and in workers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.harness.item_process import ItemProcess
from conformance.harness.schedule import workers
from conformance.harness.schedule.batches import Batch, batches, scheduled_items
from conformance.harness.schedule.captures_ahead import CapturesAhead
from conformance.harness.schedule.lookahead import Lookahead
from conformance.harness.schedule.progress_reporter import ProgressReporter
from conformance.harness.session import Session
from conformance.storage import durations
from conformance.storage.runs import private_folder


def register(config: pytest.Config, session: Session) -> None:
    """Call this once in each process, when its session has begun."""
    is_worker = workers.is_worker(config)
    project = private_folder(config.rootpath)
    if session.workers > 1 and not is_worker:
        durations.copy(project, session.run.folder)
    plan = functools.partial(_plan, session, project)
    if is_worker or not config.getoption("numprocesses", None):
        lookahead = Lookahead(config, plan)
        session.upcoming_items = lookahead.upcoming_items
        config.pluginmanager.register(ItemProcess(), "conformance_item_process")
        config.pluginmanager.register(CapturesAhead(session), "conformance_captures_ahead")
        config.pluginmanager.register(lookahead, "conformance_lookahead")  # pytest calls the last one first
    else:
        config.pluginmanager.register(workers.Workers(session.machine, plan))
    if not is_worker:
        config.pluginmanager.register(ProgressReporter(config, session))


def _plan(session: Session, project: Path, node_ids: Sequence[str]) -> list[Batch]:
    known = durations.read(session.run.folder if session.workers > 1 else project)
    return batches(scheduled_items(node_ids, known), session.workers)
