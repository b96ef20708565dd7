"""The command line: `python -m conformance COMMAND`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import conformance
from conformance.cli.optional_values import separate_optional_values
from conformance.errors import ConformanceError

#: Command → its module in cli/commands/ and its help. Only the module of the called command is imported: help is fast.
COMMANDS = {
    "list": ("list_cases", "list the cases and their files"),
    "show": ("show", "show the facts, code, graphs, IR and reasons of a case or an ad-hoc function on a target"),
    "compare": ("compare", "compare two cases on a target, or one case on two targets"),
    "bench": ("bench", "time compiled against eager on a device of this machine; explain where compiled is slower"),
    "review": ("review", "accept or reject the changes of a run, grouped by cause"),
    "accept": ("accept", "store the code that a run generated, on this machine or on another one"),
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
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    called: ModuleType | None = None
    try:
        for name, (module, text) in COMMANDS.items():
            command = commands.add_parser(name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter)
            if name == _first_word(words):
                called = importlib.import_module(f"conformance.cli.commands.{module}")
                command.description, command.epilog = called.DESCRIPTION, called.EXAMPLES
                called.add_arguments(command)
        options = parser.parse_args(separate_optional_values(words))
        if called is None:
            parser.error("the first word has to be a command")
        status = called.run(options)
        sys.stdout.flush()
    except ConformanceError as error:
        return _fail(str(error), error.status)
    except BrokenPipeError:
        _discard_output()  # the reader has read enough, as `| head` does
        return 141
    except OSError as error:
        _discard_output()
        return _fail(f"{error.filename or 'the output'}: {error.strerror or error}", 2)
    except KeyboardInterrupt:
        return 130
    return status


def _first_word(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _fail(message: str, status: int) -> int:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Discards what is still in the buffer as well: Python writes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
