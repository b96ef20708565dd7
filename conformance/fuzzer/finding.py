"""A finding: a program that fails, its smallest form, and the files that tell of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.cases.dtypes import DTYPES
from conformance.fuzzer.forms import Form
from conformance.minimisation.minimiser import Minimised
from conformance.minimisation.program import Program

_FILE = "finding.json"
#: What two calls of one operator may differ in.
_NUMBER = re.compile(r"(?<![\w.])-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class Finding:
    """`name`: of its folder. `title`: how it fails, and the operators of the smallest program. `target`: that shows it;
    `evidence`: "native" or "emulated".

    `shows`: whether the script fails with torch alone; None where the target's device is missing. `last`: the
    script's last line. `blamed`: the part of the compiler, for people. `known`: the reason of a known failure whose
    script has the same operators; "" if none. `seed`, `numbers`: of the programs that fail like this. `parts`: what the
    first one was made of. `steps`: how many it had, and the smallest one has.
    """

    name: str
    title: str
    target: str
    evidence: str
    shows: bool | None
    last: str
    blamed: str
    known: str
    seed: int
    numbers: tuple[int, ...]
    parts: tuple[str, ...]
    steps: tuple[int, int]

    def save(self, folder: Path) -> None:
        atomic_files.write_atomically(folder / self.name / _FILE, json.dumps(asdict(self), indent=1) + "\n")


def read_findings(folder: Path) -> list[Finding]:
    """The findings of a folder, by name."""
    found = []
    for file in sorted(folder.glob(f"*/{_FILE}")):
        data = json.loads(file.read_text(encoding="utf-8"))
        found.append(Finding(**{**data, **{key: tuple(data[key]) for key in ("numbers", "parts", "steps")}}))
    return found


def name_of(minimised: Minimised, program: Program) -> str:
    """The name of a finding: the same for programs that differ in names, sizes and constants alone.

    `program`: the smallest program, renamed.
    """
    text = _NUMBER.sub("N", program.text)
    failure = minimised.failure
    digest = hashlib.sha256(f"{text}\n{failure.kinds} {failure.rule} {failure.change}".encode()).hexdigest()[:6]
    words = re.sub("[^a-z0-9]+", "-", "-".join(operators(program)[:4]).lower()).strip("-")
    return f"{words or 'program'}-{digest}"


def part_of(blamed: str) -> str:
    """The part of the compiler that `Finding.blamed` names, whichever application of it; "" if it names a backend."""
    part = re.sub(r" \(application .*", "", blamed)
    return part if ", " in part else ""


def operators(program: Program) -> list[str]:
    """The names of the functions and methods that a program calls, each once, without modules and signs."""
    return list(dict.fromkeys(name for step in program.steps for name in called(step.expression)))


def called(text: str) -> list[str]:
    """The last part of each name that a text calls."""
    return [name.removesuffix("_") for name in re.findall(r"(\w+)\(", text) if name not in ("slice", "int", "float")]


def similar_bug(program: Program, bugs: Mapping[str, Sequence[str]]) -> str:
    """The reason of the known failure whose script calls all operators of the program, and the fewest others; or "".

    `bugs`: reason → the functions that its script calls.
    """
    wanted = set(operators(program))
    fitting = [reason for reason, names in bugs.items() if wanted and wanted <= set(names)]
    return min(fitting, key=lambda reason: len(bugs[reason]), default="")


def case_text(function: str, finding: Finding, program: Program, form: Form) -> str:
    """A file of cases with the smallest program. `function`: its name. Its inputs have random values.

    A case makes one call, so the program is one without a change between two calls.
    """
    inputs = ", ".join(f"{key}={_input_text(value)}" for key, value in program.inputs.items())
    grad = [key for key, value in program.inputs.items() if value.requires_grad]
    how = (f", grad={grad!r}" if grad else "") + (", dynamic=True" if form.dynamic else "")
    how += f", config={dict(form.options)!r}" if form.options else ""
    imports, _, rest = program.text.partition("\n\n\n")
    helpers, _, body = rest.partition("def program")
    body = body.partition("\n\n\n")[0].rstrip() + "\n"
    return "\n".join(
        [
            f'"""{finding.title}: found by `python -m conformance explore --seed {finding.seed}`."""',
            "",
            imports,
            "",
            "from conformance import case, tensor",
            "",
            "",
            *([helpers.rstrip(), "", ""] if helpers else []),
            f"@case({inputs}{how})",
            f"def test_{function}{body}",
        ]
    )


def _input_text(value: Any) -> str:
    short = next(name for name, theirs in DTYPES.items() if str(value.dtype) == f"torch.{theirs}")
    sizes = ", ".join(map(str, value.shape)) if value.dim() else "shape=()"
    return f"tensor({sizes}{'' if short == 'f32' else f', dtype={short!r}'})"
