"""Prepares a process before it imports torch: environment variables, cache folders, pretended devices.

The plugin and the command line call `prepare()` as early as they can. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.capture.deviceless import pretended_device
from conformance.devices.cache_folder import set_cache_variables
from conformance.devices.environment import remove_code_variables, torch_build
from conformance.devices.targets import GPUS
from conformance.devices.torch_releases import unsupported_message
from conformance.devices.vendor_devices import deviceless_problem, vendor_devices


@dataclass(frozen=True)
class Preparation:
    """What prepare() did. `dropped_variables`: environment variables that it removed.

    `torch_was_imported`: torch was already imported, so removing variables was too late. `pretended_devices`: device
    types that are pretended. `problem`: why none can be pretended, or "".
    """

    dropped_variables: tuple[str, ...]
    torch_was_imported: bool
    pretended_devices: tuple[str, ...]
    problem: str


_prepared: list[Preparation] = []  # empty until prepare() is called, then one element


def prepare(native: tuple[str, ...] = ()) -> Preparation:
    """Removes variables that change code, sets cache folders, and pretends all GPU types except those in `native`.

    Where all of torch's types are in it, those of vendors are not pretended either.

    Only the first call has an effect. Later calls return the first call's result.
    """
    if not _prepared:
        torch_was_imported = "torch" in sys.modules
        dropped = remove_code_variables()
        _process.others = _cache_variables()
        set_cache_variables()
        # SymPy caches 1000 results per function. Dynamic shapes need more: it saves a fifth of their CPU time
        os.environ.setdefault("SYMPY_CACHE_SIZE", "5000")
        wanted = () if set(GPUS) <= set(native) else (*GPUS, *vendor_devices())
        pretended = tuple(device for device in wanted if device not in native and not deviceless_problem(device))
        build = torch_build()
        problem = unsupported_message(build.version)
        if torch_was_imported and dropped:
            problem = problem or (
                f"torch was imported with {', '.join(dropped)} set, which changes code: unset it, or import "
                "conformance before torch"
            )
        problem = problem or pretended_device.load(build, pretended, torch_was_imported=torch_was_imported)
        _prepared.append(Preparation(dropped, torch_was_imported, () if problem else pretended, problem))
    return _prepared[0]


_CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def _cache_variables() -> dict[str, str | None]:
    """The values of the variables that name cache folders; None for one that is not set."""
    return {name: os.environ.get(name) for name in _CACHE_VARIABLES}


def _set_variables(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class _Process:
    """Changes this process between what cases need and what a project's own tests expect."""

    def __init__(self) -> None:
        self.puts_back = False
        self.users = 0
        self._own: dict[str, str | None] = {}
        self.others: dict[str, str | None] = {}

    def put_back(self) -> None:
        if not self.puts_back:
            self.puts_back = True
            self._own = _cache_variables()
            self._leave()

    def enter(self) -> None:
        if self.puts_back and self.users == 0:
            self.others = _cache_variables()
            _set_variables(self._own)
            pretended_device.set_memory(True)
        self.users += 1

    def exit(self) -> None:
        self.users -= 1
        if self.puts_back and self.users == 0:
            self._leave()

    def _leave(self) -> None:
        _set_variables(self.others)
        pretended_device.set_memory(False)


_process = _Process()


def put_back() -> None:
    """Puts back what prepare() changed and a project's own tests would see. From now on, it holds inside `in_use` only.

    A process that runs nothing but the suite does not call this.
    """
    _process.put_back()


@contextlib.contextmanager
def in_use() -> Iterator[None]:
    """Inside, the caches are the suite's, and the pretended devices have memory. May be nested."""
    _process.enter()
    try:
        yield
    finally:
        _process.exit()
