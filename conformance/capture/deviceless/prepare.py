"""What has to be settled before torch is imported: variables that change code, the cache folder, the pretended device.

`prepare()` is called once a process, as early as the plugin or the command line can; nothing here imports torch.
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
    """What prepare() did. `dropped`: variables taken out. `late`: torch had been imported before, so that the variables
    and the library came too late. `problem`: why no device can be pretended, or "".
    """

    dropped_variables: tuple[str, ...]
    torch_was_imported: bool
    pretended_devices: tuple[str, ...]
    problem: str


_prepared: list[Preparation] = []  # the one, once it is there


def prepare(native: tuple[str, ...] = ()) -> Preparation:
    """Settles the process: drops variables, settles caches, loads the pretended devices for all but `native` types.

    Has an effect once a process; later calls return the first one's answer.
    """
    if not _prepared:
        late = "torch" in sys.modules
        dropped = remove_code_variables()
        set_cache_variables()
        # SymPy keeps 1000 results of each of its functions; dynamic shapes ask for more, a fifth of their CPU seconds
        os.environ.setdefault("SYMPY_CACHE_SIZE", "5000")
        pretended = tuple(device for device in GPUS if device not in native)
        problem = pretended_device.load(torch_build(), pretended, late=late)
        _prepared.append(Preparation(dropped, late, () if problem else pretended, problem))
    return _prepared[0]
