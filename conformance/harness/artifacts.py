"""Artifacts of a failing item: all generated code, graphs and IR, and a script that shows the failure again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.devices.targets import Target
from conformance.errors import ConformanceError
from conformance.harness.reproduction import script

if TYPE_CHECKING:
    from conformance.capture.model import Capture


def write(folder: Path, capture: Capture) -> None:
    """Writes output code, graphs, and IR before and after fusion into the folder."""
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


def write_script(folder: Path, case: Case, target: Target, check: str, error: Exception, *, native: bool) -> None:
    """Writes `reproduce.py` into the folder, for a failure of a check. `check`: may be "compile"."""
    shown = error if check in ("compile", "numerics") else None
    script.write(folder, case, target, error=shown, native=native)


def is_of_the_code(error: Exception) -> bool:
    """Whether an exception of a compile or a call may be Inductor's: not one of this package, of memory or the disk."""
    import torch

    from conformance.capture.emulation.errors import NotEmulatedError

    others = (ConformanceError, NotEmulatedError, MemoryError, torch.OutOfMemoryError, OSError)
    return not isinstance(error, others)
