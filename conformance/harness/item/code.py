"""Compares the code of an item with the stored code, and its kernels' binaries with the stored resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance import facts
from conformance.cases.case import Case
from conformance.cases.needed_package import other_version
from conformance.compiler.case_request import CaseRequest
from conformance.devices.targets import GPUS, Target
from conformance.devices.vendor_devices import deviceless_problem, vendor_devices
from conformance.documentation import reference
from conformance.facts import binary
from conformance.generated.capture_texts import code_text
from conformance.harness.accounting import NOTHING_STORED
from conformance.harness.item.errors import CodeError, DevicelessError, NoStoredCodeError, SkipError
from conformance.harness.overlay.chosen_options import reason_not_compared
from conformance.harness.session import Session
from conformance.normalize.text import snapshot_text
from conformance.review.accept_command import ACCEPT_WITH, accept_command, advice_on_digest
from conformance.review.diff import compare_texts
from conformance.review.review import nearest_text
from conformance.settings import option_name
from conformance.storage import binaries
from conformance.storage.accept import unknown_fact
from conformance.storage.digest_store import DigestStore
from conformance.storage.digests import in_form_of
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Snapshot, torch_release

if TYPE_CHECKING:
    from conformance.capture.model import Capture, Mode


class ItemCode:
    """The checks "code" and "binary" of an item. Each one raises SkipError where there is nothing to compare."""

    def __init__(self, session: Session, case: Case, target: Target, record: ItemRecord) -> None:
        self.session, self.case, self.target, self.record = session, case, target, record
        self.name = f"{case.id}-{target.name}"

    def check_deviceless(self, native: Capture) -> None:
        """Compares the device's code with code that is generated for the same case without the device."""
        if problem := deviceless_problem(self.target.device):
            raise SkipError(problem)
        if native.mode != "native" or self.target.device == "cpu":
            raise SkipError("there is nothing to compare: this capture was made without a GPU")
        request = CaseRequest(self.case, self.target, "deviceless", texts=False)
        with self.session.capture(request) as captured:
            deviceless = captured.capture
        text = snapshot_text(deviceless, facts.extract(deviceless).lines(), self.target.device)
        if found := compare_texts(self.record.text, text):
            raise DevicelessError(
                f"{self.name}: the code generated without the device differs from the device's own: {found.message}"
            )

    def of_partner(self, name: str) -> str:
        """The code of the function `test_<name>` of the same file with the same labels; generated once a process."""
        partner = self.case.partner(name).with_config(self.session.settings.inductor_config)
        key = (partner.id, self.target.name)
        if key not in self.session.partner_codes:
            is_native = self.target.device != "cpu" and self.record.mode == "native"
            mode: Mode = "native" if is_native else "deviceless"
            with self.session.capture(CaseRequest(partner, self.target, mode, texts=False)) as captured:
                self.session.partner_codes[key] = code_text(captured.capture, self.target)
        return self.session.partner_codes[key]

    def check(self) -> None:
        """Compares the snapshot's text with the baseline run, or else with the stored text. Raises CodeError."""
        session = self.session
        if session.baseline is None:
            self._refuse_other_circumstances()
        if self.target.local:
            raise SkipError(f"{self.target.name} matches no target of targets.toml, so nothing is stored for it")
        if not self.target.stores_code and session.baseline is None:
            raise SkipError(
                f"no code is stored for {self.target.name}: compare it between two runs, with --save-run and --baseline"
            )
        if session.settings.accept == "all":
            return
        if session.baseline is not None:
            before = session.baseline.item(self.case.id, self.target.name)
            if before is None or not before.text:
                raise SkipError(f"the run {session.settings.baseline} has no {self.name}")
            self._compare(before.text)
            return
        snapshot = session.store(self.case).read(self.case.id)
        stored = snapshot.text(session.torch, self.target.name) if snapshot else None
        if snapshot is not None and stored is not None:
            if overlay := session.settings.overlay.store:
                is_over = snapshot.is_of_overlay(session.torch, self.target.name)
                self.record.layers["code"] = overlay if is_over else self.record.store
            if self.target.device in GPUS:  # code of vendors has no marks
                self.record.confirmed = snapshot.is_confirmed(session.torch, self.target.name)
            if not (session.settings.accept == "new" and snapshot.is_inherited(session.torch, self.target.name)):
                self._compare(stored, accept_command(self.case, self.target, session.settings.overlay))
        elif session.settings.accept != "new":
            self._check_without_snapshot(snapshot)

    def _refuse_other_circumstances(self) -> None:
        """Raises SkipError where the stored code is of other options or of another version of a package.

        Raises CodeError where the code is to be stored and has a fact that is unknown.
        """
        if self.session.settings.accept and (unknown := unknown_fact(self.record.text)):
            raise CodeError(f"{self.name}: not stored: {unknown}")
        if reason := reason_not_compared(self.session.settings):
            raise SkipError(reason)
        if reason := other_version(self.case.needs):
            raise SkipError(f"{reason}: compare two runs, with {option_name('save-run')} and {option_name('baseline')}")

    def _compare(self, stored: str, accept: str = "") -> None:
        if found := compare_texts(stored, in_form_of(stored, self.record), accept):
            raise CodeError(f"{self.name}: {found.message}{advice_on_digest(stored)}")

    def _check_without_snapshot(self, snapshot: Snapshot | None) -> None:
        """Nothing is stored for this item on the installed torch.

        Fails where other items are stored for this torch. Otherwise compares with the nearest torch: drift.
        """
        session = self.session
        vendor, store = vendor_devices().get(self.target.device), session.store(self.case)
        if vendor and not session.stores_target(store, self.target):
            raise SkipError(
                f"no code is stored for {self.target.name}: {vendor.package} brings the device, and its code is stored "
                "by those who have it (docs/vendor.md)"
            )
        command = accept_command(self.case, self.target, session.settings.overlay)
        other = nearest_text(snapshot, self.record) if snapshot else None
        if other is None or session.has_stored_version(store):
            if isinstance(store, DigestStore) and not store.has_table(self.case.id, session.torch, self.target.name):
                raise SkipError(
                    f"no digests of this dtype are stored for {self.target.name}: compare two runs, with "
                    f"{option_name('save-run')} and {option_name('baseline')}"
                )
            raise NoStoredCodeError(
                f"{self.name}: {NOTHING_STORED} {torch_release(session.torch)}\n\n{ACCEPT_WITH}{command}\n"
                f"how code is stored: {reference('snapshots', 'adding-and-removing')}"
            )
        found = compare_texts(other.text, in_form_of(other.text, self.record), command)
        if found is None:
            return
        self.record.drift = f"from {other.source}: {'; '.join(found.facts) or 'facts unchanged'}"
        if session.settings.fail_on_drift:
            advice = f"without {option_name('fail-on-drift')}, a run reports drift and does not fail"
            raise CodeError(f"{self.name}: drift from {other.source}: {found.message}\n{advice}")

    def check_binary(self, capture: Capture) -> None:
        """Compiles every kernel to a binary. Compares their resources with the stored ones. Raises BinaryError."""
        record, session = self.record, self.session
        if reason := reason_not_compared(session.settings):
            raise SkipError(reason)
        if capture.error:
            raise SkipError(f"there is no code: compiling raises {capture.error}")
        if self.target.device == "cpu":
            raise SkipError("only Triton kernels are compiled to binaries, and CPU kernels are C++")
        if vendor := vendor_devices().get(self.target.device):
            raise SkipError(f"{vendor.package} makes no binaries for conformance")
        record.binaries = binary.lines(capture)
        if not record.binaries:
            raise SkipError("the case has no Triton kernel")
        if binary.incomplete_stage(capture):
            return  # the installed Triton cannot compile further
        if record.evidence == "generated":
            record.evidence = "compiled"
        is_stored = self.target.stores_code and not self.target.local
        if self.case.combined or not is_stored or session.settings.accept == "all":
            return
        files = session.binary_files(self.case)
        before = binaries.stored_lines(files, self.case.id, self.target.name, session.torch)
        if before == () or (before is None and session.settings.accept == "new"):
            return  # nothing to compare with
        accept = f"{accept_command(self.case, self.target, session.settings.overlay)} {option_name('checks')} binary"
        binaries.check_lines(self.name, before, record.binaries, accept)
