"""An answer: the text, the origin and the numerics of each watched case on each target, as they are now."""

from __future__ import annotations

import dataclasses
import importlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.cli.case_options import project_targets
from conformance.cli.numerics_verdict import NumericsVerdict, numerics_verdict
from conformance.cli.watching.failures import failure_text
from conformance.compiler.compiler import Compiler
from conformance.devices.environment import torch_build
from conformance.devices.targets import Target, TargetError
from conformance.errors import ConformanceError
from conformance.generated.capture_texts import origin, whole_text


@dataclass(frozen=True)
class Result:
    """`name`: the case and the target, or the case as it was typed. `stored`: the text of the snapshot for this torch.

    `error`: why there is no text. `refused`: whether that is a word of the command line that names nothing.
    `target`: what the case is captured for.
    """

    name: str
    origin: str = ""
    text: str = ""
    stored: str | None = None
    numerics: NumericsVerdict | None = None
    error: str = ""
    refused: bool = False
    target: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        numerics = data["numerics"]
        return cls(**{**data, "numerics": NumericsVerdict(**numerics) if numerics else None})


def answer(compiler: Compiler, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields results as JSON. What cases print goes to a file, and temporary files into a folder.

    The request has `words`, `targets`, `options` of ad-hoc functions, `edited`, `output` and `temporary`.
    """
    _redirect(request["output"])
    tempfile.tempdir = os.environ["TMPDIR"] = request["temporary"]
    importlib.import_module("torch").set_num_threads(compiler.machine.cores)
    for word in request["words"]:
        for result in _results(compiler, word, request):
            yield dataclasses.asdict(result)


def _results(compiler: Compiler, word: str, request: Mapping[str, Any]) -> Iterator[Result]:
    known, edited = compiler.machine.targets(), request["edited"]
    try:
        case, own = resolve_case(word, known, AdhocOptions.from_json(request["options"]))
        targets = [compiler.target(name) for name in request["targets"] or _default_targets(own, known)]
    except Exception as error:  # noqa: BLE001 - an edited file may raise anything
        refused = isinstance(error, ConformanceError) and error.__cause__ is None
        yield Result(word, error=failure_text(error, edited), refused=refused)
        return
    for target in targets:
        yield _result(compiler, case, target, [*edited, str(case.file)])


def _default_targets(own: str, known: Collection[str]) -> Sequence[str]:
    """The target that the name of the case ends in, else the first of the project."""
    names = [own] if own else project_targets()[:1]
    if not names:
        raise TargetError(f"no target: add --target {{{','.join(known)}}}")
    return names


def _result(compiler: Compiler, case: Case, target: Target, edited: Sequence[str]) -> Result:
    name = f"{case.id} for {target.name}"
    try:
        native = compiler.is_native(target, run=True)
        with compiler.generate(case, target, run=True) as result:
            text, made = whole_text(result.capture, target), origin(result.capture, target)
            verdict = numerics_verdict(compiler, case, result, target, native=native)
    except Exception as error:  # noqa: BLE001 - an edited file may raise anything
        return Result(name, error=failure_text(error, edited), target=target.name)
    return Result(name, made, text, _stored_text(compiler, case, target), verdict, target=target.name)


def _stored_text(compiler: Compiler, case: Case, target: Target) -> str | None:
    from conformance.storage.locations import snapshot_store
    from conformance.storage.snapshots import torch_release

    if not case.file.is_file():
        return None  # a function of the command line
    snapshot = snapshot_store(case.file, tuple(compiler.machine.targets())).read(case.id)
    return snapshot.text(torch_release(torch_build().version), target.name) if snapshot else None


def _redirect(file: str) -> None:
    """Sends what this process and its children print to a file."""
    with Path(file).open("wb") as output:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
