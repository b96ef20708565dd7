"""The command line: `python -m conformance COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import conformance
from conformance.bench import BenchError
from conformance.binaries import BinaryFileError
from conformance.capture.companion import CompanionError
from conformance.capture.environment import PreparationError
from conformance.capture.offline import KernelError, StageError
from conformance.case import CaseError
from conformance.commands import (
    accepting,
    benching,
    bugs,
    comparing,
    diffing,
    doctor,
    gaps,
    listing,
    pruning,
    reviewing,
    showing,
)
from conformance.commands.asking import settled
from conformance.finding import UnknownCaseError
from conformance.generating import GeneratingError
from conformance.given import InputError
from conformance.known_failures import KnownFailureError
from conformance.own import OwnError
from conformance.run import RunError
from conformance.snapshot import SnapshotError
from conformance.targets import TargetError

#: Errors whose message is the whole story.
_OURS = (
    TargetError,
    CaseError,
    UnknownCaseError,
    PreparationError,
    StageError,
    BenchError,
    BinaryFileError,
    comparing.CompareError,
    showing.ShowError,
    InputError,
    OwnError,
    reviewing.ReviewError,
    KnownFailureError,
    RunError,
    SnapshotError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 1 for a check that failed, 2 for what could not be done."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=conformance.__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=conformance.__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (listing, showing, comparing, benching, reviewing, accepting, diffing, gaps, bugs, pruning, doctor):
        command.add(commands)
    try:
        wanted = parser.parse_args(settled(sys.argv[1:] if arguments is None else arguments))
        status = wanted.run(wanted)
        sys.stdout.flush()
    except _OURS as error:
        return _fail(str(error), 2)
    except (GeneratingError, CompanionError, KernelError) as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        _write_nothing_more()  # whoever reads has enough, as with `| head`
        return 141
    except OSError as error:
        _write_nothing_more()
        return _fail(f"{error.filename or 'the output'}: {error.strerror or error}", 2)
    except KeyboardInterrupt:
        return 130
    return status


def _fail(message: str, status: int) -> int:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr)
    return status


def _write_nothing_more() -> None:
    """Also not what is still buffered, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
