"""What a run's folder says of the run: versions, targets, the machine, and the options that change results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import conformance
from conformance.devices.environment import triton_version
from conformance.harness.session import Session
from conformance.sources.source_in_use import source_in_use


def run_description(root: Path, session: Session, options: dict[str, Any]) -> dict[str, Any]:
    """The description, without what Run.begin adds. `root`: of pytest. `options`: see options_of_items."""
    return {
        "conformance": conformance.__version__,
        "torch": session.torch,
        "triton": triton_version(),
        "targets": [target.name for target in session.selected_targets],
        "root": str(root.resolve()),
        "machine": session.machine.summary(),
        **({} if (factor := session.settings.factor) is None else {"factor": factor}),
        **({} if not (chosen := session.settings.inductor_config) else {"inductor_config": dict(chosen)}),
        **({"options": options} if options else {}),
        "overlay": session.settings.overlay.to_json(),
        **({} if (source := source_in_use()) is None else {"torch_source": source.to_json()}),
    }
