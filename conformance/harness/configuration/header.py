"""The lines of a run's header: what this machine has, and what is unusual about the run."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import settings
from conformance.devices.environment import torch_build, triton_version
from conformance.harness.overlay import report
from conformance.harness.schedule import gpu_binding
from conformance.harness.session import Session
from conformance.sources.source_in_use import source_in_use


def lines(session: Session, reason_unguarded: str, ini_options: Sequence[str]) -> list[str]:
    """The lines. `reason_unguarded`: why no guardian watches the run; "" if one does, or if nobody need know.

    `ini_options`: a line for each that the project sets.
    """
    devices = sorted({target.device for target in session.selected_targets})
    states = "; ".join(f"{device} {_device_state(session, device)}" for device in devices)
    triton = f"Triton {triton_version()}" if triton_version() else "no Triton"
    result = [f"conformance: torch {torch_build().version}, {triton}; {states}", *_names_of_others()]
    if source := source_in_use():
        result.append(
            f"conformance: torch's Python files are those of {source.name}, with the binaries of "
            f"{torch_build().version}: {source.differs:,} {'file differs' if source.differs == 1 else 'files differ'}"
        )
    result += [f"conformance: {'; '.join(ini_options)}"] if ini_options else []
    result += (
        [f"conformance: each case is compiled with {chosen}"]
        if (chosen := session.settings.typed_inductor_config)
        else []
    )
    if reason_unguarded:
        result.append(f"conformance: a crash ends this run, and items have no time limit, because {reason_unguarded}")
    return [*result, *report.header_lines(session.settings.overlay), *session.notices]


def _device_state(session: Session, device: str) -> str:
    if device in session.compiler.patch_problems:
        return "off"  # a notice says why
    spread = gpu_binding.description(session.machine, device, session.workers)
    state = session.compiler.generation_problems.get(device) or session.machine.describe(device)
    return f"{state}, {spread}" if spread else state


def _names_of_others() -> list[str]:
    names = settings.names_of_others()
    if not names:
        return []
    theirs = ", ".join(f"--{name}" for name in names)
    ours = ", ".join(map(settings.long_name, names))
    verb = "belongs" if len(names) == 1 else "belong"
    return [f"conformance: {theirs} {verb} to another plugin or a conftest; ours: {ours}"]
