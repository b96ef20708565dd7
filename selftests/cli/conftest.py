"""Fixtures of the command line's selftests."""

from __future__ import annotations

import pytest

from conformance.cli.main import main


@pytest.fixture
def call(capsys):
    """Runs a command; returns its exit status, stdout and stderr."""

    def run(*words):
        try:
            status = main(words)
        except SystemExit as exit_:  # argparse's own
            status = exit_.code
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run
