"""Options that `show`, `compare` and `bench` share: the parts to print, ad-hoc functions, how to compile."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from conformance.cases.adhoc import AdhocError, AdhocOptions, is_adhoc_function
from conformance.cases.case import Case
from conformance.cases.lookup import shadowed_line
from conformance.cli.capture_sections import STAGES
from conformance.devices.targets import TargetError
from conformance.harness.configuration.project_settings import project_settings

#: Part → help, in the order in which the parts are printed.
PARTS = {
    "facts": "print the facts: first those of the snapshot, then the others",
    "why": "print Inductor's reasons: why code is not vectorised, not fused, falls back or breaks the graph",
    "sizes": "print from which size of an input on Inductor chooses other kernels; it compiles for larger ones "
    "without their memory",
    "same-bits": "compare bits: run to run, with fewer rows, another layout, other kernels, and with eager; it "
    "compiles for each",
    "work": "count the work of the compile: calls of Python functions by phase, nodes, kernels, lines; none depends "
    "on the machine",
    "growth": "compile 1, 2, 4 … 64 repetitions of the function, and print how the work and the memory grow",
    "graph": f"print the graphs, before and after the passes; STAGE is one of {', '.join(STAGES)}",
    "ir": "print Inductor's nodes, before and after fusion",
    "code": "print the normalised code",
    "raw": "print the code as Inductor wrote it",
    "binary": "print what the binary of each cuda kernel tells: registers, spills, shared memory, widest access, "
    "tensor cores",
    "bytecode": "print the Python bytecode before and after Dynamo, and the guards",
    "log": "print torch's own logs: graph breaks, recompiles, fusion, schedule, loop order and tiling",
}
#: The part that compiles the case for other sizes.
SIZES = "sizes"
#: The part that compiles the case in other ways, and compares bits.
SAME_BITS = "same-bits"
#: The parts that compile the case in a process of their own, and count its work.
WORK, GROWTH = "work", "growth"
#: Parts that compile the case again; the others are printed from one capture.
COMPILING = (SIZES, SAME_BITS, WORK, GROWTH)
#: These parts need an explored capture.
EXPLORED = ("graph", "bytecode", "log")


def print_shadowed(word: str, case: Case) -> None:
    """Says on stderr if this package has another case with the same id. `word`: how the user named the case."""
    if "::" not in word and not is_adhoc_function(word) and (line := shadowed_line(case)):
        print(line, file=sys.stderr)


def project_targets() -> list[str]:
    """The targets that the project's ini file names, in its order. Raises SettingsError for a wrong ini file."""
    names = project_settings(Path.cwd()).targets
    return names.split(",") if names else []


def checked_target(name: str, known: Collection[str]) -> str:
    """The name of a target. Raises TargetError for one that is not `known`, and for ""."""
    if name not in known:
        text = f"unknown target {name!r}" if name else "no target"
        raise TargetError(f"{text}: add --target {{{','.join(sorted(known))}}}")
    return name


def add_part_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Adds an option for each of these PARTS."""
    for name in names:
        option, text = f"--{name}", PARTS[name]
        if name == "graph":
            parser.add_argument(
                option, action="append", nargs="?", const="all", dest="stages", default=[], metavar="STAGE", help=text
            )
        else:
            parser.add_argument(option, action="append_const", const=name, dest="parts", default=[], help=text)


def selected_parts(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns the selected parts in the order of PARTS, and the selected stages of graphs.

    No stages: all of them except "runnable". Raises AdhocError for an unknown stage.
    """
    stages = list(dict.fromkeys(arguments.stages))
    for stage in stages:
        if stage not in (*STAGES, "all"):
            raise AdhocError(f"--graph {stage}: there is no such stage; known are {', '.join(STAGES)}")
    parts = [part for part in PARTS if part in arguments.parts or (part == "graph" and stages)]
    if "all" in stages:
        stages = [] if stages == ["all"] else list(STAGES)
    return parts, stages


def add_what_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="*",
        default=[],
        metavar="CASE|PATH",
        help="parts of case ids, with * and ?; files and folders; or an ad-hoc function",
    )


def add_adhoc_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `adhoc_options` reads."""
    group = parser.add_argument_group(
        "ad-hoc functions, and how to compile",
        "In place of a case you can name a function: module:function,\n"
        "path/to/file.py:function, 'path/to/file.py:Module(64)' or 'lambda x: …'.\n"
        "--input is for functions; the other options are for cases too.",
    )
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input of the function; write the option once for each: x=1x3x224x224:u8:channels_last, y=20:f32, "
        "beta=0.5, x='torch.randn(3, 4)', x=file.pt",
    )
    group.add_argument(
        "--grad",
        action="append",
        nargs="?",
        const="",
        default=[],
        metavar="NAMES",
        help="compute gradients: of the inputs in NAMES (x,y), or of all floating-point inputs",
    )
    group.add_argument("--dynamic", action="store_true", help="compile with dynamic shapes")
    group.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option of Inductor (triton.persistent_reductions=False) or of Dynamo (dynamo.NAME=VALUE)",
    )


def adhoc_options(arguments: argparse.Namespace) -> AdhocOptions:
    return AdhocOptions(tuple(arguments.input), tuple(arguments.grad), arguments.dynamic, tuple(arguments.config))


def adhoc_words(arguments: argparse.Namespace) -> list[str]:
    """The words of the command line that give these options again."""
    given = {"--input": arguments.input, "--config": arguments.config}
    words = [word for option, values in given.items() for value in values for word in (option, value)]
    words += [f"--grad={','.join(filter(None, arguments.grad))}"] if arguments.grad else []
    return [*words, "--dynamic"] if arguments.dynamic else words
