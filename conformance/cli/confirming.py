"""What `confirm` does: chooses the target, runs pytest on the device, and writes the archive."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET  # reads the file that pytest wrote
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conformance
from conformance.cli.doctor_checks import Finding
from conformance.cli.overlay_options import pytest_words
from conformance.cli.run_options import snapshot_folders
from conformance.cli.target_rows import row_properties
from conformance.devices import environment
from conformance.devices.cpp_compiler import compiler_problem
from conformance.devices.environment import PreparationError
from conformance.devices.machine import Machine
from conformance.devices.targets import GPUS, Target, TargetError, amd_architecture, targets
from conformance.errors import ConformanceError
from conformance.settings import ACCEPT, Overlay, long_name
from conformance.storage.accept_archive import refuse_unstored_version
from conformance.storage.anonymous import Anonymiser
from conformance.storage.confirm_archive import SUFFIX, ArchivedItem, ConfirmArchive, Manifest, sha256, write_archive
from conformance.storage.locations import store_at
from conformance.storage.runs import Run, run_folder
from conformance.storage.snapshots import Snapshot, torch_release

#: Properties that the archive has beside those of rows. Not: uuid and places on the bus, which name one card.
_FURTHER_PROPERTIES = {"name", "gcnArchName", "is_integrated", "is_multi_gpu_board", "major", "minor"}
#: Seconds that pytest gets to end after Ctrl-C, which the terminal sends to it as well.
_ENDING = 10.0
#: Characters of a message that the archive keeps.
_MESSAGE = 20_000


_NO_OVERLAY = Overlay()


class ConfirmError(ConformanceError, RuntimeError):
    """The run did not come to its end, so there is no archive."""


@dataclass
class Confirmation:
    """One run on the device of a target, and its archive `output`. `folder`: of the run."""

    machine: Machine
    target: Target
    output: Path
    folder: Path
    snapshot_folders: dict[str, Path]
    overlay: Overlay = _NO_OVERLAY

    def announcement(self) -> str:
        what = f"Runs natively for {self.target.name}"
        if self.target.local:
            what += f": {self.target.description} has no row in targets.toml. The archive describes it"
        elif not self.compares_deviceless:
            what += ", and compares nothing with code that is generated without the device"
        return f"{what}. Then writes {self.output}."

    @property
    def compares_deviceless(self) -> bool:
        """Whether code of this device is generated without it too: not for CPUs, which need none."""
        return self.target.device in self.machine.gpus

    def run(
        self, paths: Sequence[Path], keyword: str | None, processes: str, *, quick: bool, subset: str | None = None
    ) -> int:
        """Runs pytest. `subset`: a file that names the cases.

        Returns 1 if checks failed, else 0. Raises ConfirmError, and KeyboardInterrupt after Ctrl-C.
        """
        command = [sys.executable, "-m", "pytest", "-p", "conformance.plugin", "-p", "no:cacheprovider"]
        command += [*map(str, paths), long_name("target"), self.target.name]
        command += [long_name("require-device"), long_name("fresh"), "-n", processes]
        command += [long_name("save-run"), f"{self.folder}{os.sep}", f"--junit-xml={self._junit}", "-q", "--tb=no"]
        command += [long_name("verify-deviceless")] if self.compares_deviceless else []
        command += [long_name("quick")] if quick else []
        command += ["-k", keyword] if keyword else []
        command += pytest_words(self.overlay, subset, long_name)
        env = {name: value for name, value in os.environ.items() if name != ACCEPT}
        status = _wait(subprocess.Popen(command, env=env))
        if status == 5:
            raise ConfirmError(f"no case is selected{f' by -k {keyword!r}' if keyword else ''}: no archive was written")
        if status not in (0, 1):
            raise ConfirmError(f"pytest ended with status {status}: see above; no archive was written")
        return status

    @property
    def _junit(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.xml")

    def write(self) -> list[str]:
        """Writes the archive. Returns the lines that say what it holds, and where to send it."""
        run, anonymiser = Run(self.folder), Anonymiser()
        archive = ConfirmArchive(self._manifest(len([name for name in run.selected().values() if name])))
        order = tuple(targets())
        stores = {folder: store_at(folder, order, self.overlay.store) for folder in self.snapshot_folders.values()}
        for record in run.items():
            store = stores[self.snapshot_folders[record.case]]
            stored = store.read(record.case) or Snapshot()
            current = stored.text(record.torch, self.target.name)
            hashed = sha256(record.text)
            archive.items.append(ArchivedItem(record, hashed, None if self.target.local else sha256(current or "")))
            if record.text and hashed not in map(sha256, stored.texts.values()):
                archive.code[record.case] = record.text
        archive.failures = "\n\n".join(_failure_messages(self._junit))
        self._junit.unlink(missing_ok=True)
        left_out = write_archive(self.output, archive, anonymiser, conformance.__version__)
        size, with_code = self.output.stat().st_size / 1024, len(archive.code) - len(left_out)
        lines = [
            f"{self.output}: items: {len(archive.items)}; with code that is not stored: {with_code}; {size:,.0f} KiB",
            *(f"without the code of {case}: it has a path of this machine" for case in left_out),
            "It has no paths, user names or host names. Look into it before you send it: it is a zip file of texts.",
        ]
        return [*lines, where_to_send()]

    def _manifest(self, selected: int) -> Manifest:
        device: dict[str, Any] = {"type": self.target.device, "capability": [0, 0], "properties": {}, "driver": ""}
        if gpu := self.machine.gpus.get(self.target.device):
            wanted = row_properties(self.target.family) | _FURTHER_PROPERTIES
            device["capability"] = list(gpu["capability"])
            device["properties"] = {key: value for key, value in gpu["properties"].items() if key in wanted}
            device["driver"] = _driver(self.target.device, gpu)
        versions = {
            "torch": environment.torch_build().version,
            "triton": environment.triton_version(),
            "python": platform.python_version(),
            "system": " ".join([platform.system(), *re.findall(r"^\d+[.\d]*", platform.release()), platform.machine()]),
        }
        return Manifest(self.target.name, device, versions, selected)


def check_output(output: Path | None) -> None:
    """Raises PreparationError for a file that cannot be written."""
    if output is None:
        return
    if output.suffix != SUFFIX:
        raise PreparationError(f"--output {output}: the archive is a zip file, so give a name that ends in {SUFFIX}")
    if output.is_dir() or not os.access(output.absolute().parent, os.W_OK):
        raise PreparationError(f"--output {output}: it cannot be written there; name a file in a folder that exists")


def prepare(
    findings: Sequence[Finding],
    name: str | None,
    paths: Sequence[Path],
    output: Path | None,
    overlay: Overlay = _NO_OVERLAY,
) -> Confirmation:
    """Chooses the target and checks that it can run here. `name`: of the target.

    Raises PreparationError where something is missing, TargetError for a target that does not run here, ArchiveError
    where nothing is stored for this torch.
    """
    if fatal := next((each for each in findings if each.fatal), None):
        raise PreparationError(f"{fatal.missing} {fatal.text}")
    machine = Machine.detect()
    target = _target(machine, name)
    if problem := compiler_problem():
        raise PreparationError(problem)
    if target.device != "cpu" and not environment.triton_version():
        raise PreparationError("Triton is not installed, and generates the code for GPUs: see the command above")
    folders = snapshot_folders(list(paths))
    version = environment.torch_build().version
    stores = [store_at(folder, tuple(targets()), overlay.store) for folder in set(folders.values())]
    refuse_unstored_version(version, stores)
    file = output or Path(f"conformance-{target.name}-torch{torch_release(version)}{SUFFIX}")
    check_output(file)
    return Confirmation(
        machine, target, file, run_folder(Path.cwd(), f"confirm-{target.name}").absolute(), folders, overlay
    )


def _target(machine: Machine, name: str | None) -> Target:
    """The target of the first GPU, or the named one. Raises TargetError if it does not run here."""
    gpus = [device for device in machine.gpus if device in GPUS]  # a vendor's device has a table of its own
    native = {machine.target_of(device).name: machine.target_of(device) for device in gpus}
    if name is None and not native:
        raise TargetError(
            "torch finds no GPU here. Install the GPU's driver and a torch that is built for it; "
            "`--target cpu_avx2` tries the command on a CPU"
        )
    native |= {each.name: each for each in targets().values() if each.device == "cpu" and machine.is_native(each)}
    chosen = name or next(iter(native))
    if chosen not in native:
        raise TargetError(f"--target {chosen} does not run on this machine; these do: {', '.join(native) or 'none'}")
    return native[chosen]


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Waits for pytest. After Ctrl-C, lets it end, and raises KeyboardInterrupt."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                process.wait(_ENDING)
                break
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.send_signal(number)  # only this process got Ctrl-C; or it does not end
        process.wait()
        raise


def _driver(device: str, gpu: dict[str, Any]) -> str:
    """The version of the GPU's driver; "" where it is not known."""
    if device == "xpu":
        return str(gpu["properties"].get("driver_version", ""))
    module = "amdgpu" if amd_architecture(gpu["properties"]) else "nvidia"
    path = Path(f"/sys/module/{module}/version")
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _failure_messages(junit: Path) -> Iterator[str]:
    """Yields the name and the message of each failed check."""
    if not junit.exists():
        return
    for entry in ET.parse(junit).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it just now
        for child in entry:
            if child.tag in ("failure", "error"):
                yield f"## {entry.get('name')}\n{(child.text or child.get('message') or '')[:_MESSAGE]}"


def where_to_send() -> str:
    """The line that says where the archive goes: the issue tracker that the package names, if it names one."""
    try:
        urls = importlib.metadata.metadata("conformance").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        urls = []
    for entry in urls:
        label, _, url = entry.partition(", ")
        if label.lower() in ("issues", "tracker", "issue tracker", "bug tracker", "bugs"):
            return f"Attach it to an issue: {url}"
    return "Attach it to an issue of the project that you have this suite from."
