"""The page of `show --html`: one file that explains a case for each target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from conformance import atomic_files
from conformance.cases.case import Case
from conformance.compiler.compiler import Compiler
from conformance.compiler.explanation import explained
from conformance.devices.targets import Target
from conformance.storage.runs import hidden_folder


def write_explanations(
    compiler: Compiler, case: Case, targets: Sequence[Target], *, deviceless: bool
) -> tuple[Path, str]:
    """Writes the page into .conformance/ of the current folder. Returns its path and what it holds.

    Raises PreparationError, GeneratingError and CompiledFormError, and OSError for a file that cannot be written.
    """
    from conformance.report.changes import Changes
    from conformance.report.columns import Cells
    from conformance.report.explanations import explanations_page
    from conformance.report.page import page

    explanations = []
    for target in targets:
        with compiler.generate(case, target, explore=True, deviceless=deviceless) as result:
            found = explained(result.capture, case, target, instructions=True)
        explanations.append(found.to_json())
    text = page([], Cells(), Changes(), [explanations_page(case.id, explanations)])
    name = re.sub(r"[^\w.-]+", "-", case.id).strip("-.")
    file = hidden_folder(Path.cwd()) / f"{name}.html"
    atomic_files.write_atomically(file, text, survives_power_loss=False)
    return file, f"{len(text.encode()) / 1e6:.1f} MB, {case.id} for {', '.join(target.name for target in targets)}"
