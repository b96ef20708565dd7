"""What `show` and `compare` have in common: which parts, of what, and with which options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from conformance.cases.adhoc import AdhocError, AdhocOptions
from conformance.cli.capture_sections import STAGES

#: Part → help, in the order in which they are printed. Those of EXPLORED need an explored capture.
PARTS = {
    "facts": "the facts: those that a snapshot stores, then the others",
    "why": "why it came out so: what is not vectorised, not fused, falls back or breaks the graph, and the rule",
    "graph": f"the graphs, before and after passes; STAGE: {', '.join(STAGES)}",
    "ir": "Inductor's nodes, before and after fusion",
    "code": "the normalised code",
    "raw": "what Inductor wrote, not normalised",
    "binary": "what the kernels' binaries say (cuda): registers, spills, shared memory, widest access, tensor cores",
    "bytecode": "Python's bytecode before and after Dynamo, and the guards",
    "log": "what torch's own logs say: graph breaks, recompiles, fusion, schedule, loop order and tiling",
}
EXPLORED = ("graph", "bytecode", "log")


def add_parts(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    for name in names:
        if name == "graph":
            add = {"action": "append", "nargs": "?", "const": "all", "dest": "stages", "default": []}
            parser.add_argument("--graph", metavar="STAGE", help=PARTS[name], **add)
        else:
            parser.add_argument(
                f"--{name}", action="append_const", const=name, dest="parts", default=[], help=PARTS[name]
            )


def parts_of(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The parts that were asked for in the order of PARTS, and the stages of graphs: none for all but the script.

    Raises AdhocError for a stage that there is not.
    """
    stages = list(dict.fromkeys(arguments.stages))
    for stage in stages:
        if stage not in (*STAGES, "all"):
            raise AdhocError(f"--graph {stage}: there is no such stage; known are {', '.join(STAGES)}")
    parts = [part for part in PARTS if part in arguments.parts or (part == "graph" and stages)]
    if "all" in stages:
        stages = [] if stages == ["all"] else list(STAGES)
    return parts, stages


def add_own(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "a function of your own: module:function, path/to/file.py:function, 'lambda x: …'"
    )
    add = group.add_argument
    given = "x=1x3x224x224:u8:channels_last, y=20:f32, beta=0.5, x='torch.randn(3, 4)', x=file.pt; once for each"
    add("--input", action="append", default=[], metavar="NAME=VALUE", help=given)
    add(
        "--grad",
        action="append",
        nargs="?",
        const="",
        default=[],
        metavar="NAMES",
        help="with gradients of all inputs, or of x,y",
    )
    add("--dynamic", action="store_true", help="with dynamic shapes")
    what = "an option of Inductor's, such as triton.persistent_reductions=False; of Dynamo's with dynamo. before it"
    add("--config", action="append", default=[], metavar="NAME=VALUE", help=what)


def asked(arguments: argparse.Namespace) -> AdhocOptions:
    return AdhocOptions(tuple(arguments.input), tuple(arguments.grad), arguments.dynamic, tuple(arguments.config))
