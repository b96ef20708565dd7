"""Session: what one process of a test run knows. The machine, the selected targets, the stores, the run's folder.

The process that pytest starts makes it; workers get it as plain data. Nothing here knows pytest.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.devices import environment, targets
from conformance.devices.cpp_compiler import compiler_problem
from conformance.devices.machine import Machine
from conformance.devices.targets import Target
from conformance.expectations import known_failures
from conformance.settings import Settings, SettingsError
from conformance.storage.locations import KNOWN, folder_beside, store_of
from conformance.storage.runs import Run
from conformance.storage.snapshots import Store, release

if TYPE_CHECKING:
    from conformance.capture.compile import CaptureResult
    from conformance.capture.emulation.wrapper import Emulation
    from conformance.capture.model import Mode
    from conformance.harness.gpu_free_worker import GpuFreeWorker


#: Torch versions that captures are made for. A newer one is tried, and what does not fit is switched off.
OLDEST, NEWEST = (2, 11), (2, 15)


@dataclass
class Session:
    """`workers`: how many processes share the machine. `problems`: device → why its code cannot be generated here.

    `unfit`: those of them that torch's sources show before it is imported.
    """

    settings: Settings
    machine: Machine
    run: Run
    workers: int = 1
    baseline: Run | None = None
    problems: dict[str, str] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    codes: dict[tuple[str, str], str] = field(default_factory=dict)  # (case, target) → code of partners
    _settled: bool = False

    @functools.cached_property
    def selected(self) -> list[Target]:
        """The targets of this run. Raises TargetError for an unknown name or an empty selection."""
        return targets.select_targets(self.machine.targets().values(), self.settings.devices, self.settings.targets)

    @functools.cached_property
    def torch(self) -> str:
        return environment.torch_build().version

    def prepare(self) -> None:
        """Settles this process before torch is imported, and says what cannot be done here."""
        prepared = prepare(targets.GPUS if self.machine.gpus else ())
        triton = environment.triton_version()
        for device in targets.GPUS:
            if device in self.machine.gpus:
                continue
            if not triton:
                self.problems[device] = "Triton is not installed: pip install triton"
            elif prepared.problem:
                self.problems[device] = prepared.problem
        if environment.torch_build().release < OLDEST:
            why = f"torch {self.torch} is too old to capture generated code; {OLDEST[0]}.{OLDEST[1]} is the oldest"
            self.problems |= dict.fromkeys(targets.DEVICES, why)
        elif not self.settings.backend_option:
            self._look_at_torch()
        if prepared.dropped_variables:
            self.notices.append(f"ignored, because they change generated code: {', '.join(prepared.dropped_variables)}")
        if why := compiler_problem():
            self.notices.append(f"cpu code is generated and not run: {why}")

    def _look_at_torch(self) -> None:
        """Says at the start what a torch no longer has, though nothing imports it yet."""
        from conformance.capture import isolation

        self.unfit = isolation.patch_problems_in_sources(self.machine.targets().values(), tuple(self.machine.gpus))
        self.notices += dict.fromkeys(self.unfit.values())
        self.problems = self.unfit | self.problems

    def settle_torch(self) -> None:
        """Once torch is imported: threads divided among workers, the pretended devices in place, patches that fit.

        Has an effect once. Raises SettingsError for a backend that torch.compile does not know.
        """
        if self._settled:
            return
        self._settled = True
        with _uncollected():
            self._settle()

    def _settle(self) -> None:
        import torch

        from conformance.capture import isolation
        from conformance.capture.deviceless import pretended_device

        environment.disable_trace_records()
        torch.set_num_threads(max(1, self.machine.cores // self.workers))
        pretended_device.register_operators(prepare().pretended_devices)
        if self.settings.backend_option:
            _load_ipex(torch.__version__)
            _refuse_unknown(self.settings.backend)
            return  # nothing is captured, and its torch may be too old for what capturing looks at
        for device, why in self.unfit.items():
            if self.problems.get(device) == why:
                del self.problems[device]  # torch itself says more than its sources
        for device, why in isolation.patch_problems(self.machine.targets().values(), tuple(self.machine.gpus)).items():
            self.problems.setdefault(device, why)

    def mode(self, target: Target) -> str:
        """Native where the device is here; a cpu target only where its kernels are to be run, not just read."""
        wanted = target.device != "cpu" or "numerics" in self.settings.checks
        return "native" if wanted and not self.not_run(target) else "deviceless"

    def not_run(self, target: Target) -> str:
        """Why code for the target does not run here, or ""."""
        if not self.machine.is_native(target):
            return f"no {target.name} here: its code was generated, not run"
        return compiler_problem() if target.device == "cpu" else ""

    def cannot(self, target: Target) -> str:
        """Why nothing can be generated for the target here, or ""."""
        if self.settings.backend_option:
            return ""  # nothing is generated: what runs here, runs
        return self.problems.get(target.device, "")

    @contextlib.contextmanager
    def captured(
        self, case: Case, target: Target, mode: Mode, *, explore: bool = False, emulate: bool = False
    ) -> Iterator[CaptureResult]:
        """A capture, made by the GPU-free worker where a GPU that is here has to be hidden. Raises what compiling raises.

        Also for another device type: no PyTorch has both cuda and xpu. `emulate`: what is generated for a gpu that
        is not here runs on the cpu.
        """
        from conformance.capture.compile import CaptureResult, capture

        if mode == "deviceless" and target.device != "cpu" and self.machine.gpus:
            made, numerics = self.gpu_free_worker.capture(case, target, explore=explore, emulate=emulate)
            yield CaptureResult(made, None, numerics if emulate else None)
        else:
            emulation = self._emulation(target) if emulate else None
            with capture(case, target, mode, explore=explore, emulation=emulation) as made:
                yield made

    def not_emulated(self, target: Target) -> str:
        """Why what is generated for a gpu that is not here is not run on the cpu either, or ""."""
        if target.device == "cpu" or self.machine.is_native(target):
            return f"{target.name} is not emulated"
        return "" if self.settings.emulation else "--no-emulation"

    @staticmethod
    def _emulation(target: Target) -> Emulation:
        from conformance.capture.emulation.wrapper import Emulation

        return Emulation(target)

    @functools.cached_property
    def gpu_free_worker(self) -> GpuFreeWorker:
        from conformance.harness.gpu_free_worker import GpuFreeWorker

        return GpuFreeWorker()

    def close(self) -> None:
        """Ends what was started for it."""
        if "gpu_free_worker" in vars(self):
            self.gpu_free_worker.close()

    def missing_devices(self) -> list[str]:
        """Device types that were selected and of which no selected target runs here."""
        native = {target.device for target in self.selected if self.machine.is_native(target)}
        return [
            device
            for device in targets.DEVICES
            if device not in native and any(t.device == device for t in self.selected)
        ]

    def store(self, case: Case) -> Store:
        return store_of(case.file, tuple(self.machine.targets()))

    def known(self, case: Case) -> known_failures.KnownFailures:
        return _known(self.known_folder(case), self.settings.backend_option)

    def known_folder(self, case: Case) -> Path:
        return folder_beside(case.file, KNOWN)

    def is_stored_version(self, store: Store) -> bool:
        """Whether anything at all is stored for the torch at hand; if not, differences are drift."""
        return release(self.torch) in _versions(store)

    def to_json(self) -> dict[str, Any]:
        """For a worker; settings come to it on its own command line."""
        return {"machine": self.machine.to_json(), "run": str(self.run.folder), "workers": self.workers}


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage is collected while torch's modules are imported, and what they leave is not looked at again.

    A third of the time of importing Inductor, and of each full collection while compiling.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
        atexit.register(gc.unfreeze)  # or nanobind, which is in Triton, takes at the end for leaked what is only kept
    finally:
        if enabled:
            gc.enable()


def _load_ipex(torch_version: str) -> None:
    """Importing Intel's extension registers its backend. It ends the process on a torch it was not built for."""
    try:
        version = importlib.metadata.version("intel-extension-for-pytorch")
    except importlib.metadata.PackageNotFoundError:
        return
    if release(version) == release(torch_version):
        importlib.import_module("intel_extension_for_pytorch")


def _refuse_unknown(backend: str) -> None:
    from conformance.capture.backends import BackendError, backend_named

    try:
        backend_named(backend)
    except BackendError as error:
        raise SettingsError(str(error)) from None


@functools.cache
def _known(folder: Path, way: str) -> known_failures.KnownFailures:
    return known_failures.load(folder, way)


@functools.cache
def _versions(store: Store) -> frozenset[str]:
    return frozenset(store.versions())
