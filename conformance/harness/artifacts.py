"""Artifacts of a failing item: all generated code, graphs and IR, and a script that compiles the case again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.devices.targets import Target

if TYPE_CHECKING:
    from conformance.capture.model import Capture


def write(folder: Path, case: Case, target: Target, capture: Capture) -> None:
    """Writes output code, graphs, IR before and after fusion, and `reproduce.py` into the folder."""
    for number, module in enumerate(capture.complete().modules):
        parts = {
            "output_code.py": module.code,
            "graph.py": module.graph,
            "ir_pre_fusion.txt": module.ir_pre_fusion,
            "ir_post_fusion.txt": module.ir_post_fusion,
        }
        for name, text in parts.items():
            if text:
                (folder / f"{number}_{module.kind}_{name}").write_text(text, encoding="utf-8")
    if capture.joint_graph:
        (folder / "joint_graph.py").write_text(capture.joint_graph, encoding="utf-8")
    (folder / "reproduce.py").write_text(_reproduce_script(case, target), encoding="utf-8")


def _reproduce_script(case: Case, target: Target) -> str:
    """A script that compiles the case for the target, without pytest."""
    return f'''"""Compiles {case.id} for {target.name}, shows facts and code, and checks the numerics where it runs."""

import sys

from conformance.cli.main import main

sys.exit(main(["show", "{case.file}::{case.id}", "--target", "{target.name}", "--numerics"]))
'''
