"""Prepares a process before it imports torch: environment variables, cache folders, pretended devices.

The plugin and the command line call `prepare()` as early as they can. Nothing here imports torch.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from conformance.capture.deviceless import pretended_device
from conformance.devices.environment import remove_code_variables, set_cache_variables, torch_build
from conformance.devices.targets import GPUS


@dataclass(frozen=True)
class Preparation:
    """What prepare() did. `dropped_variables`: environment variables that it removed.

    `torch_was_imported`: torch was already imported, so removing variables and loading the pretended devices was too
    late. `pretended_devices`: device types that are pretended. `problem`: why none can be pretended, or "".
    """

    dropped_variables: tuple[str, ...]
    torch_was_imported: bool
    pretended_devices: tuple[str, ...]
    problem: str


_prepared: list[Preparation] = []  # empty until prepare() is called, then one element


def prepare(native: tuple[str, ...] = ()) -> Preparation:
    """Removes variables that change code, sets cache folders, and pretends all GPU types except those in `native`.

    Only the first call has an effect. Later calls return the first call's result.
    """
    if not _prepared:
        torch_was_imported = "torch" in sys.modules
        dropped = remove_code_variables()
        set_cache_variables()
        # SymPy caches 1000 results per function. Dynamic shapes need more: it saves a fifth of their CPU time
        os.environ.setdefault("SYMPY_CACHE_SIZE", "5000")
        pretended = tuple(device for device in GPUS if device not in native)
        problem = pretended_device.load(torch_build(), pretended, torch_was_imported=torch_was_imported)
        _prepared.append(Preparation(dropped, torch_was_imported, () if problem else pretended, problem))
    return _prepared[0]
