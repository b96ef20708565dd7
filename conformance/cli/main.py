"""The command line: `python -m conformance COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import conformance
from conformance.bench import BenchError
from conformance.capture.offline.compiler import KernelError, StageError
from conformance.cases.adhoc import OwnError
from conformance.cases.case import CaseError
from conformance.cases.input_syntax import InputError
from conformance.cases.lookup import UnknownCaseError
from conformance.cli.case_options import settled
from conformance.cli.commands import accept, bench, bugs, compare, diff, doctor, list_cases, missed, prune, review, show
from conformance.devices.environment import PreparationError
from conformance.devices.targets import TargetError
from conformance.expectations.known_failures import KnownFailureError
from conformance.harness.generator import GeneratingError
from conformance.harness.gpu_free_worker import CompanionError
from conformance.storage.binaries import BinaryFileError
from conformance.storage.runs import RunError
from conformance.storage.snapshots import SnapshotError

#: Errors whose message is the whole story.
_OURS = (
    TargetError,
    CaseError,
    UnknownCaseError,
    PreparationError,
    StageError,
    BenchError,
    BinaryFileError,
    compare.CompareError,
    show.ShowError,
    InputError,
    OwnError,
    review.ReviewError,
    KnownFailureError,
    RunError,
    SnapshotError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 1 for a check that failed, 2 for what could not be done."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=conformance.__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=conformance.__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (list_cases, show, compare, bench, review, accept, diff, missed, bugs, prune, doctor):
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
