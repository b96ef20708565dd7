"""The pytest plugin of `--conformance-report FILE`: it writes the report of a run at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import atomic_files
from conformance.errors import ConformanceError
from conformance.harness.configuration.pytest_options import option
from conformance.harness.pytest_plugin import finished_summary


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Runs after the run is summed up. The run fails if the report cannot be written."""
    summary = finished_summary(session.config)
    if summary is None:
        return
    from conformance.report.changes import changes_of
    from conformance.report.columns import cells_of
    from conformance.report.further_pages import further_pages
    from conformance.report.page import page

    file = Path(session.config.invocation_params.dir, option(session.config, "report"))
    try:
        cells = cells_of([summary.run])
        text = page([summary.run], cells, changes_of(cells, [summary.run]), further_pages(cells))
        atomic_files.write_atomically(file, text, survives_power_loss=False)
    except (OSError, ConformanceError) as error:
        summary.lines.append(f"the report was not written: {error}")
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    else:
        summary.lines.append(f"report: {file}")
