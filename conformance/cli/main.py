"""The command line: `python -m conformance COMMAND`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Iterator, Sequence
from types import ModuleType

import conformance
from conformance.cli import overlay_options
from conformance.devices import environment
from conformance.distributions import LAB, PAGE, module_of
from conformance.errors import ConformanceError
from conformance.terminal import recorded_interruptions

#: The group of entry points with which another distribution adds a command: its name, and the module that has it. The
#: module has DESCRIPTION, EXAMPLES, `add_arguments(parser)` and `run(arguments)`, which returns the exit status.
ENTRY_POINTS = "conformance.commands"
#: Who needs it → command → its module in cli/commands/ and its help. Only the module of the called command is imported:
#: help is fast.
GROUPS = {
    "every day": {
        "list": ("list_cases", "list cases, known bugs, or missed optimisations"),
        "show": ("show", "show the facts, code, graphs and reasons of a case or a function"),
        "watch": ("watch", "answer each save of a case or of Inductor with what it changed"),
        "compare": ("compare", "compare two cases, one case on two targets, or two releases"),
        "review": ("review", "accept or reject the changes of a run, grouped by cause"),
        "report": ("report", "write one HTML file about one or several runs"),
        "view": ("view", "look at the runs of this project in a browser"),
        "doctor": ("doctor", "say what this machine can do, and how to get what is missing"),
        "docs": ("docs", "print the documentation: its list of pages, a page, or a section"),
    },
    "for compiler engineers": {
        "bisect": ("bisect", "find the commit of PyTorch that changed the code of a case"),
        "blame": ("blame", "find the functions of another torch that change the code of a case"),
        "explore": ("explore", "make programs out of cases, and keep what is compiled wrong"),
        "minimise": ("minimise", "find the smallest program that fails as a case does"),
        "estimate": ("estimate", "estimate the least time of each kernel, without the device"),
        "bench": ("bench", "time compiled against eager on this machine; explain what is slower"),
        "coverage": ("coverage", "say which lines of Inductor the cases execute"),
    },
    "for maintainers": {
        "accept": ("accept", "store the code that a run generated, here or elsewhere"),
        "merge": ("merge", "join runs of several machines, shards or targets into one run"),
        "history": ("history", "keep what runs gave over time, for a report"),
        "confirm": ("confirm", "run the suite on your GPU, and write an archive of what it gave"),
        "prune": ("prune", "remove what is stored for lost cases, or for a release of torch"),
    },
}
#: Distribution → its commands. The others are in `conformance` itself.
OF_OTHERS = {
    LAB: ("bench", "bisect", "blame", "confirm", "coverage", "estimate", "explore", "minimise", "watch"),
    PAGE: ("history", "report", "view"),
}
COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}
#: Former command → what to type now.
_FORMER = {
    "bugs": "list --bugs",
    "missed": "list --missed",
    "diff": "compare OLD NEW",
    "audit": "report --audit RUN…",
    "drop": "prune --torch RELEASE --yes",
}
#: An option whose value is optional → what the value looks like, and what to write in place of the option without one.
_WITH_OPTIONAL_VALUE = {"--graph": ("[a-z]+", "--graph=all"), "--grad": (r"\w+(,\w+)*", "--grad=")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0; 1 for a failed check; 2 for wrong input or a missing part."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=textwrap.fill((conformance.__doc__ or "").partition("\n")[0], 79),
        epilog="\n".join([*_command_lines(), "", "Options and examples: `python -m conformance COMMAND --help`."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=conformance.__version__)
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with contextlib.ExitStack() as stack:
        interruptions = stack.enter_context(recorded_interruptions()) if by_default else []
        try:
            _escape_what_no_locale_has()
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
    if new := _FORMER.get(_first_word(words)):
        parser.error(f"`{_first_word(words)}` is `{new}` now")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, prog=parser.prog, help=argparse.SUPPRESS)
    called: ModuleType | None = None
    attached = {} if _first_word(words) in COMMANDS else _attached()
    for name in [*COMMANDS, *attached]:
        command = commands.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == _first_word(words):
            called = attached[name].load() if name in attached else _own_command(name)
            command.description, command.epilog = called.DESCRIPTION, called.EXAMPLES
            called.add_arguments(command)
            overlay_options.add_overlay_options(name, command)
            overlay_options.add_source_option(name, command)
    options = parser.parse_args(_separate_optional_values(words))
    if called is None:
        parser.error("the first word has to be a command")
    if _first_word(words) != "docs":
        environment.refuse_unusable_torch()
    overlay_options.use_source_option(_first_word(words), options)
    overlay_options.use_overlay(_first_word(words), options)
    return int(called.run(options))


def _own_command(name: str) -> ModuleType:
    """The module of a command in COMMANDS. Raises MissingDistributionError."""
    module = COMMANDS[name][0]
    distribution = next((each for each, names in OF_OTHERS.items() if name in names), "conformance")
    return module_of(distribution, f"cli.commands.{module}", name)


def _attached() -> dict[str, importlib.metadata.EntryPoint]:
    """The commands of other distributions than ours, by name."""
    found = {each.name: each for each in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    return {name: each for name, each in found.items() if name not in COMMANDS}


def _separate_optional_values(words: Sequence[str]) -> list[str]:
    """The command line so that `--graph CASE` does not take the case as the value of `--graph`.

    argparse alone takes any next word as the value.
    """
    separated = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        pattern, without_value = _WITH_OPTIONAL_VALUE.get(word, ("", ""))
        takes_value = not following or following.startswith("-") or re.fullmatch(pattern, following)
        separated.append(without_value if pattern and not takes_value else word)
    return separated


def _command_lines() -> Iterator[str]:
    """The commands and their help, in the groups."""
    width = max(map(len, COMMANDS))
    for number, (group, commands) in enumerate(GROUPS.items()):
        yield f"{'' if number == 0 else chr(10)}{group}:"
        yield from (f"  {name:<{width}}  {text}" for name, (_, text) in commands.items())
    if attached := _attached():
        yield "\nof other packages:"
        yield from (f"  {name:<{width}}  {each.value}" for name, each in attached.items())


def _escape_what_no_locale_has() -> None:
    """Messages have signs such as ≤: where the locale is not UTF-8, they are escaped instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="backslashreplace")


def _first_word(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _fail(message: str, status: int) -> int:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Discards what is still in the buffer as well: Python writes it at exit."""
    with contextlib.suppress(io.UnsupportedOperation):  # a caller in Python may read the output from a text
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
