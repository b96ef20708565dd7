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

#: Command → its module in cli/commands/ and its help. The module is imported where its command is called: help is fast.
COMMANDS = {
    "list": ("list_cases", "list the cases and their files"),
    "show": ("show", "show facts, code, graphs, IR and reasons of a case, or of your own function, on a target"),
    "compare": ("compare", "compare two cases (A B --target TARGET), or one case on two targets (CASE TARGET TARGET)"),
    "bench": (
        "bench",
        "time compiled against eager on a device of this machine; explain where compiled is slower",
    ),
    "review": ("review", "accept or reject the changes of a run, grouped by edit"),
    "accept": ("accept", "store what a run generated, on this machine or on another one"),
    "diff": ("diff", "show what changed between two torch versions, from the stored snapshots"),
    "missed": ("missed", "list the optimisations that Inductor misses, with its reasons"),
    "bugs": ("bugs", "list the known bugs of Inductor, each with a script that needs torch alone"),
    "prune": ("prune", "list or remove snapshots whose case no longer exists"),
    "drop": ("drop", "remove what is stored for a torch version"),
    "doctor": ("doctor", "say what this machine can do, what is missing, and the command that installs it"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 1 for a check that failed, 2 for what could not be done."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m conformance", description=conformance.__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=conformance.__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    chosen: ModuleType | None = None
    try:
        for name, (module, text) in COMMANDS.items():
            command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
            if words[:1] == [name]:
                chosen = importlib.import_module(f"conformance.cli.commands.{module}")
                chosen.add_arguments(command)
        wanted = parser.parse_args(separate_optional_values(words))
        assert chosen is not None  # noqa: S101 - argparse ends the process where no command is named
        status = chosen.run(wanted)
        sys.stdout.flush()
    except ConformanceError as error:
        return _fail(str(error), error.status)
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
