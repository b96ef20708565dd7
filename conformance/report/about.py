"""What a report says of each run before anything else: torch, options, baseline, machine and date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.report.commands import option_text, options_of
from conformance.storage.runs import Run


def about(run: Run) -> dict[str, str]:
    """What is said → the text."""
    description = run.description()
    options = options_of(description)
    parts = list(description.get("merged", {}).values()) or [description]
    baseline = options.pop("baseline", "")
    return {
        "run": run.folder.resolve().name,
        "torch": _torch(description),
        "options": option_text(options) or "none",
        "code compared with": f"the run {baseline}" if baseline else _compared_with(options),
        "machine": " and ".join(dict.fromkeys(_machine(each.get("machine", {})) for each in parts)),
        "date": str(description["time"]).replace("T", " ").removesuffix("Z"),
    }


def _torch(description: Mapping[str, Any]) -> str:
    triton = f", Triton {description['triton']}" if description.get("triton") else ""
    source = description.get("torch_source", {})
    files = f", Python files of {source.get('commit') or source.get('path')}" if source else ""
    return f"{description['torch']}{triton}{files}"


def _compared_with(options: Mapping[str, Any]) -> str:
    return "nothing" if "inductor-config" in options else "what is stored"


def _machine(machine: Mapping[str, Any]) -> str:
    if not machine:
        return "unknown"
    gpus = ", ".join(machine.get("gpus", {}).values())
    return f"{machine['processor']}, {machine['cores']} cores{f', {gpus}' if gpus else ''}"
