"""Session: the state of a test run in one process: its compiler, the selected targets, the stores, the run's folder.

The process that the user starts makes a session, and its workers get it as JSON. This module does not know pytest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.capture.deviceless.prepare import prepare
from conformance.cases import other_inputs, run_values
from conformance.cases.case import Case
from conformance.cases.roots import STORAGE_ROOTS
from conformance.cases.target_selection import select_targets
from conformance.compiler.backends import BackendError, backend_named
from conformance.compiler.compiler import Compiler
from conformance.devices import environment, targets
from conformance.devices.cache_folder import cache_folder
from conformance.devices.machine import Machine
from conformance.devices.targets import Target
from conformance.devices.torch_releases import STRICT
from conformance.devices.vendor_devices import VendorDevice, vendor_devices
from conformance.expectations import known_failures
from conformance.harness.accidents.process_memory import MemoryLimit
from conformance.harness.quick import one_target_a_device
from conformance.settings import Settings, SettingsError, option_name
from conformance.storage import binaries
from conformance.storage.locations import KNOWN_FAILURES, snapshot_store, storage_folder
from conformance.storage.passed_numerics import FOLDER, PassedNumerics
from conformance.storage.runs import Run
from conformance.storage.snapshots import Store, torch_release

if TYPE_CHECKING:
    from conformance.capture.model import Mode
    from conformance.capture.result import CaptureResult
    from conformance.compiler.ahead import AheadCapture
    from conformance.compiler.case_request import CaseRequest
    from conformance.compiler.shared_captures import SharedCaptures


@dataclass
class Session:
    """The state of a test run in one process.

    `workers`: how many processes share the machine. `notices`: lines for pytest's header.
    `partner_codes`: (case, target) → normalised code, generated only to be compared with.
    `waiting_captures`: the name of an item → its capture, made ahead; see captures_ahead.py.
    `broken`: why this process must not run another item; "" if it may. `memory`: ends the process for its size, in the
    same way; None in a run with tests of the project's own. `items_without_quick`: with --quick, how
    many items pytest would have collected without it. `upcoming_items`: returns the case and the
    target of each item that this process runs after the current one, in the same batch. `restart_time_limit`: gives the
    current item the whole time again.
    """

    settings: Settings
    machine: Machine
    run: Run
    workers: int = 1
    baseline: Run | None = None
    notices: list[str] = field(default_factory=list)
    partner_codes: dict[tuple[str, str], str] = field(default_factory=dict)
    waiting_captures: dict[str, AheadCapture] = field(default_factory=dict)
    broken: str = ""
    memory: MemoryLimit | None = None
    items_without_quick: int = 0
    upcoming_items: Callable[[], Sequence[tuple[Case, Target]]] = tuple
    restart_time_limit: Callable[[], None] = lambda: None
    compiler: Compiler = field(init=False)

    def __post_init__(self) -> None:
        threads = max(1, self.machine.cores // self.workers)
        self.compiler = Compiler(
            self.machine, threads, self.settings.inductor_config, is_inductor=not self.settings.backend_option
        )

    @functools.cached_property
    def selected_targets(self) -> list[Target]:
        """The targets of this run. Raises TargetError for an unknown name or an empty selection."""
        if self.settings.quick and not self.settings.targets:
            return one_target_a_device(self.named_targets, self.machine)
        return self.named_targets

    @functools.cached_property
    def named_targets(self) -> list[Target]:
        """The targets that --device, --target and the ini file select, whether --quick leaves some out or not."""
        known = self.machine.targets().values()
        vendors = {} if self.names_targets else vendor_devices()
        return select_targets(
            [each for each in known if each.device not in vendors or self.machine.is_native(each)],
            self.settings.devices,
            self.settings.targets or self.settings.default_targets,
            self.settings.variants or self.machine.is_native,
            ini_option="" if self.settings.targets else "conformance_targets",
        )

    @functools.cached_property
    def vendors(self) -> list[VendorDevice]:
        """The vendors' devices that are selected, and on this machine or pretended."""
        selected = {target.device for target in self.selected_targets}
        return [device for device in self.compiler.vendors if device.name in selected]

    @functools.cached_property
    def torch(self) -> str:
        return environment.torch_build().version

    def prepare(self) -> None:
        """Sets up this process before torch is imported, and finds out for which devices no code can be generated.

        Raises PreparationError for a torch that is not supported.
        """
        settings = self.settings
        selection = run_values.SampleSelection(settings.samples, settings.dtypes, settings.special_values)
        run_values.use(seed=settings.seed, factor=settings.factor, selection=selection)
        if self.settings.seed:
            self.notices.append(
                f"{option_name('seed')} {self.settings.seed}: all random values are other ones than by default"
            )
        self.compiler.prepare()
        self.notices += self.compiler.notices

    def set_up_torch(self) -> None:
        """Sets torch up for captures, and another backend where the run has one. Only the first call does anything.

        Raises SettingsError for a backend that torch.compile does not know.
        """
        if self.compiler.torch_is_set_up:
            return
        self.compiler.set_up_torch(self.vendors)
        if self.settings.backend_option:
            import torch

            _load_ipex(torch.__version__)
            _refuse_unknown_backend(self.settings.backend)

    def mode(self, target: Target) -> Mode:
        """How a case is captured for the target. A CPU target is native only for a run that calls its code."""
        runs = target.device != "cpu" or not {"numerics", "same_bits"}.isdisjoint(self.settings.checks)
        return "native" if runs and not self.compiler.reason_not_run(target) else "deviceless"

    @property
    def names_targets(self) -> bool:
        """Whether the command line or the ini file names the targets, or their device types."""
        return bool(self.settings.targets or self.settings.default_targets) or self.settings.devices not in (
            None,
            "all",
        )

    def refuse_unusable_targets(self, importers_of_torch: Sequence[str] = ()) -> None:
        """Raises TargetError where no code can be generated for a target that the user named.

        Also where torch was imported too early, whatever the user named: without that import, all would run.
        `importers_of_torch`: the files that may have imported it.
        """
        too_late = prepare().problem if prepare().torch_was_imported else ""
        for target in self.selected_targets:
            problem = self.compiler.generation_problem(target)
            if problem and problem == too_late and importers_of_torch:
                problem += f" (imported by {', '.join(importers_of_torch)})"
            if problem and (self.names_targets or too_late):
                raise targets.TargetError(f"no code can be generated for {target.name}: {problem}")

    def capture(self, request: CaseRequest) -> contextlib.AbstractContextManager[CaptureResult]:
        """Captures what `request` asks for, or takes the capture that was made ahead. Raises what compiling raises."""
        name = f"{request.case.id}-{request.target.name}"
        ahead = self.waiting_captures.pop(name, None) if request.defer_build else None
        if ahead is not None:
            return ahead.resumed()
        shares = self.settings.captures == "shared"
        others = self.compiles_other_inputs(request.case)
        request = dataclasses.replace(request, shares=shares, audit=self.settings.audit, other_inputs=others)
        return self.compiler.capture(request)

    @property
    def widest_cpu_target(self) -> Target | None:
        """The selected CPU target with the widest vectors that this machine has: what other backends compile for."""
        native = [each for each in self.selected_targets if each.device == "cpu" and self.machine.is_native(each)]
        return max(native, key=lambda each: self.machine.isas.index(each.isa), default=None)

    def reason_not_run(self, target: Target) -> str:
        """Why code for the target does not run here and, in brackets, why it is not emulated either."""
        native, emulated = self.compiler.reason_not_run(target), self.reason_not_emulated(target)
        if self.machine.is_native(target) or not emulated:  # natively, only a compiler can be missing
            return native
        return f"{native} ({emulated})"

    def reason_not_emulated(self, target: Target) -> str:
        """Why code for the target does not run on the CPU with emulation; "" where it does."""
        reason = self.compiler.reason_not_emulated(target)
        if target.device == "cpu" and not (self.settings.targets or self.settings.default_targets):
            return reason or f"qemu runs it on request: {option_name('target')} {target.name}"
        return reason or ("" if self.settings.emulation else option_name("no-emulation"))

    @functools.cached_property
    def shared_captures(self) -> SharedCaptures:
        """The captures of this process that other targets can share."""
        from conformance.compiler.shared_captures import SharedCaptures

        return SharedCaptures()

    @functools.cached_property
    def passed_numerics(self) -> PassedNumerics:
        """Which numerics passed before, in this run or another one."""
        return PassedNumerics(cache_folder() / FOLDER)

    def compiles_other_inputs(self, case: Case) -> bool:
        """Whether numerics also compile the case with other strides, sizes and dtypes."""
        return not self.settings.quick and other_inputs.are_compiled(case)

    def missing_devices(self) -> list[str]:
        """Selected device types and platforms of which no selected target runs here."""
        native = {target.family for target in self.selected_targets if self.machine.is_native(target)}
        return [
            family
            for family in targets.families()
            if family not in native and any(t.family == family for t in self.selected_targets)
        ]

    def store(self, case: Case) -> Store:
        """The store with the case's snapshots: expected_code/ beside the case's file, and what is laid over it."""
        return snapshot_store(case.file, tuple(self.machine.targets()), self.settings.overlay.store)

    def binary_files(self, case: Case) -> list[Path]:
        """The files that may have the binaries of a case, the overlay's first."""
        store = self.store(case)
        return [binaries.file_of_case(root, case.id) for root in dict.fromkeys((store.root, store.place))]

    def known_failures_of(self, case: Case) -> known_failures.KnownFailures:
        """The known failures of the case's folder and of the overlay, for this run's backend.

        Raises KnownFailureError.
        """
        folder, settings = self.known_failures_folder(case), self.settings
        overlays = settings.overlay.known_failures
        strict = self.strict_release(folder)
        seeded = bool(settings.seed)
        chosen = settings.inductor_config_options
        return _known_failures(folder, settings.backend_option, strict, overlays, settings.strict_torch, seeded, chosen)

    def strict_release(self, folder: Path | None) -> str:
        """The `strict` of a folder's KnownFailures: the package's own release, or the project's."""
        own = [(each / KNOWN_FAILURES).resolve() for each in STORAGE_ROOTS]
        is_own = folder is not None and folder.resolve() in own
        return STRICT if is_own else self.settings.strict_torch

    def known_failures_folder(self, case: Case) -> Path:
        """known_failures/ beside the case's file."""
        return storage_folder(case.file, KNOWN_FAILURES)

    def has_stored_version(self, store: Store) -> bool:
        """Whether the store has a snapshot for the installed torch. If not, differences are drift."""
        return torch_release(self.torch) in _stored_versions(store)

    def stores_target(self, store: Store, target: Target) -> bool:
        """Whether the store has code of any case for the target."""
        return _has_target(store, target.name)

    def to_json(self) -> dict[str, Any]:
        """For a worker. The worker reads the settings from its own command line."""
        return {"machine": self.machine.to_json(), "run": str(self.run.folder), "workers": self.workers}


def _load_ipex(torch_version: str) -> None:
    """Imports Intel's extension, which registers its backend. With another torch, the extension ends the process."""
    try:
        version = importlib.metadata.version("intel-extension-for-pytorch")
    except importlib.metadata.PackageNotFoundError:
        return
    if torch_release(version) == torch_release(torch_version):
        importlib.import_module("intel_extension_for_pytorch")


def _refuse_unknown_backend(backend: str) -> None:
    try:
        backend_named(backend)
    except BackendError as error:
        raise SettingsError(str(error)) from None


@functools.cache
def _known_failures(
    folder: Path,
    backend_option: str,
    strict: str,
    overlays: tuple[str, ...],
    overlay_strict: str,
    other_values: bool,
    inductor_options: tuple[str, ...],
) -> known_failures.KnownFailures:
    return known_failures.load(
        folder,
        backend_option,
        strict,
        overlays,
        overlay_strict,
        other_values=other_values,
        inductor_options=inductor_options,
    )


@functools.cache
def _has_target(store: Store, target: str) -> bool:
    return store.has_target(target)


@functools.cache
def _stored_versions(store: Store) -> frozenset[str]:
    return frozenset(store.versions())
