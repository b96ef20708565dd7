"""The command line: `python -m conformance COMMAND`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import conformance
from conformance.cli import overlay_options, source_option
from conformance.cli.optional_values import separate_optional_values
from conformance.devices import environment
from conformance.errors import ConformanceError

#: Command → its module in cli/commands/ and its help. Only the module of the called command is imported: help is fast.
COMMANDS = {
    "list": ("list_cases", "list the cases and their files"),
    "show": ("show", "show the facts, code, graphs, IR and reasons of a case or an ad-hoc function on a target"),
    "watch": ("watch", "answer each save of a case or of Inductor: what changed in facts, code and numerics"),
    "compare": ("compare", "compare two cases on a target, or one case on two targets"),
    "bisect": ("bisect", "find the commit of PyTorch that changed what is generated for a case"),
    "blame": ("blame", "find the functions of another torch that change what is generated for a case"),
    "minimise": (
        "minimise",
        "find the smallest program that fails as a case does, and the part of the compiler at fault",
    ),
    "coverage": ("coverage", "say which lines of Inductor the cases execute, what none reaches, and which add nothing"),
    "bench": ("bench", "time compiled against eager on a device of this machine; explain where compiled is slower"),
    "estimate": (
        "estimate",
        "estimate where the time goes: the least time of each kernel on a target, without the device",
    ),
    "review": ("review", "accept or reject the changes of a run, grouped by cause"),
    "accept": ("accept", "store the code that a run generated, on this machine or on another one"),
    "merge": ("merge", "join runs of several machines, shards or targets into one run"),
    "confirm": ("confirm", "if you have a GPU: run the suite on it, and write an archive of what it gave"),
    "diff": ("diff", "show what changed between two torch versions in the stored snapshots"),
    "report": ("report", "write one HTML file about one or several runs"),
    "missed": ("missed", "list the optimisations that Inductor misses, with its reasons"),
    "audit": ("audit", "list the opt-outs that excuse nothing in all of several runs with --audit"),
    "bugs": ("bugs", "list the known bugs of Inductor, each with a script that needs only torch"),
    "prune": ("prune", "list or remove the snapshots of cases that no longer exist"),
    "drop": ("drop", "remove everything that is stored for a torch version"),
    "docs": ("docs", "print the documentation: a page, a section of one, or the list of pages"),
    "doctor": ("doctor", "say what this machine can do, what is missing, and how to install it"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0; 1 for a failed check; 2 for wrong input or a missing part."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description=(conformance.__doc__ or "").partition("\n")[0],
        epilog="Options and examples: `python -m conformance COMMAND --help`.",
    )
    parser.add_argument("--version", action="version", version=conformance.__version__)
    with _interruptions() as interruptions:
        try:
            status = _run(parser, words)
            sys.stdout.flush()
        except KeyboardInterrupt:
            return 130
        except ConformanceError as error:
            return 130 if interruptions else _fail(str(error), error.status)
        except BrokenPipeError:
            _discard_output()  # the reader has read enough, as `| head` does
            return 141
        except OSError as error:
            _discard_output()
            return _fail(f"{error.filename or 'the output'}: {error.strerror or error}", 2)
        except ImportError:
            if interruptions:  # a module in C turns a Ctrl-C during its import into this error
                return 130
            raise
    return status


def _run(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    called: ModuleType | None = None
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == _first_word(words):
            called = importlib.import_module(f"conformance.cli.commands.{module}")
            command.description, command.epilog = called.DESCRIPTION, called.EXAMPLES
            called.add_arguments(command)
            overlay_options.add_overlay_options(name, command)
            source_option.add_source_option(name, command)
    options = parser.parse_args(separate_optional_values(words))
    if called is None:
        parser.error("the first word has to be a command")
    if _first_word(words) != "docs":
        environment.refuse_unbuilt_torch()
    source_option.use_source_option(_first_word(words), options)
    overlay_options.use_overlay(_first_word(words), options)
    return int(called.run(options))


@contextlib.contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Records each Ctrl-C: an import of a module in C may make another error of the KeyboardInterrupt."""
    recorded: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield recorded
        return

    def interrupt(number: int, _frame: Any) -> None:
        recorded.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield recorded
    finally:
        signal.signal(signal.SIGINT, before)


def _first_word(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _fail(message: str, status: int) -> int:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Discards what is still in the buffer as well: Python writes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
