"""One side of `compare`: what is generated for a case on a target, in this process or with another torch in its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.cli.capture_sections import Block, comparable_blocks
from conformance.cli.case_options import EXPLORED
from conformance.cli.overlay_options import INSTALLED, SOURCE_OPTION
from conformance.compiler.compiler import Compiler, compiler_here
from conformance.devices.targets import Target, use_tables
from conformance.errors import ConformanceError
from conformance.generated.capture_texts import origin
from conformance.sources.source_in_use import source_in_use, use_source

#: The answer's line begins with it: cases may print.
_ANSWER = "SIDE "


class SideError(ConformanceError, RuntimeError):
    """A side that the process of its own could not generate; the message is that process's."""


@dataclass(frozen=True)
class ComparedSide:
    """`name`: case and target. `origin`: how it was made. `facts`: name → line. `blocks`: the other parts. `kernels`:
    (name, text) of each, where they were asked for.
    """

    name: str
    origin: str
    facts: dict[str, str]
    blocks: list[Block]
    kernels: list[tuple[str, str]] = dataclasses.field(default_factory=list)


def captured_side(
    compiler: Compiler,
    case: Case,
    target: Target,
    parts: Sequence[str],
    stages: Sequence[str],
    *,
    form: str = "whole",
    kernels: bool = False,
) -> ComparedSide:
    """Captures a side in this process. `parts`, `stages`: as in case_options.selected_parts. `form`: as for capture.

    `kernels`: with the kernels.
    """
    from conformance.facts import extract
    from conformance.normalize.wrapper_modules import kernel_texts

    explore = any(part in EXPLORED for part in parts)
    with compiler.generate(case, target, explore=explore, form=form) as captured:
        capture = captured.capture
        blocks = [
            block for part in parts if part != "facts" for block in comparable_blocks(part, capture, target, stages)
        ]
        name, made = f"{case.id} for {target.name}", origin(capture, target)
        name += f", {form}" if form != "whole" else ""
        if source := source_in_use():
            made += f", Python files of {source.name}"
        modules = capture.modules if kernels else []
        texts = [each for module in modules for each in kernel_texts(module.code, target.device)]
        return ComparedSide(name, made, extract(capture).lines(), blocks, texts)


def side_of_source(source: str, request: Mapping[str, Any]) -> ComparedSide:
    """Captures a side in a process of its own. `source`: PATH[@COMMIT] or INSTALLED. `request`: see `main`.

    Raises SideError.
    """
    command = [sys.executable, "-m", "conformance.cli.compared_side"]
    given = json.dumps({"source": source, **request})
    ran = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=False)
    answers = [line for line in ran.stdout.splitlines() if line.startswith(_ANSWER)]
    if not answers:
        raise SideError(f"the process that compiles with {SOURCE_OPTION} {source} ended with status {ran.returncode}")
    answer = json.loads(answers[-1].removeprefix(_ANSWER))
    if "error" in answer:
        raise SideError(answer["error"])
    blocks = [Block(**block) for block in answer.pop("blocks")]
    return ComparedSide(**answer, blocks=blocks)


def main() -> int:
    """Reads a request from stdin, and prints the side as JSON.

    The request has `source`, `case` as typed, `target`, `options` of an ad-hoc function, `parts`, `stages` and
    `tables`, the files of further targets.
    """
    request = json.load(sys.stdin)
    try:
        if request["source"] != INSTALLED:
            use_source(request["source"], SOURCE_OPTION)
        use_tables(request["tables"])
        options = AdhocOptions.from_json(request["options"])
        with contextlib.closing(compiler_here()) as compiler:
            case, _ = resolve_case(request["case"], compiler.machine.targets(), options)
            side = captured_side(
                compiler, case, compiler.target(request["target"]), request["parts"], request["stages"]
            )
        answer = dataclasses.asdict(side)
    except ConformanceError as error:
        answer = {"error": str(error)}
    print(f"\n{_ANSWER}{json.dumps(answer)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
