"""Accepts an archive of `confirm`: says what the device is, merges what it gave, and shows what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import conformance
from conformance import atomic_files
from conformance.cases.lookup import project_here
from conformance.cli.run_options import snapshot_folders
from conformance.cli.target_rows import device_row, differing_properties
from conformance.devices import targets as table
from conformance.devices.targets import Target, TargetError, matching_target, targets
from conformance.settings import Overlay
from conformance.storage.accept_archive import MergeResult, merge_archive, stores_of
from conformance.storage.check_results import Outcome
from conformance.storage.confirm_archive import ArchiveError, ConfirmArchive, Manifest, read_archive
from conformance.storage.installed import refuse_installed
from conformance.storage.runs import Run, runs_folder


def accept_archive(
    path: Path, paths: Sequence[Path], overlay: Overlay, *, confirm_only: bool, new_row: str | None
) -> int:
    """Prints what was merged. Returns 1 if something differs, failed, or could not be stored.

    `paths`: of the cases; without: those of this project and of this package. `new_row`: the name of a row to add for
    the device: in the last table of `overlay`, else in that of this package. Raises ArchiveError, TargetError,
    CaseError and InstalledError, before anything is stored.
    """
    archive = read_archive(path, conformance.__version__)
    manifest = archive.manifest
    folders = snapshot_folders(list(paths))
    for store in stores_of(archive, folders, list(targets()), overlay.store).values():
        refuse_installed(store.root)
    target = _target(manifest)
    print("\n".join(_heading(archive, target)))
    if target is None:
        if new_row is None:
            print("\nIts device has no row in targets.toml, so nothing was stored. Its row would be:\n")
            print(_row(manifest))
            print(f"\nadd it and store the code: python -m conformance accept {path} --add-row NAME")
            return 1
        target = _add_row(manifest, new_row, overlay)
    elif new_row is not None:
        raise TargetError(f"--add-row {new_row}: the device has a row already: {target.name}")
    result = merge_archive(
        archive, folders, target.name, list(targets()), confirm_only=confirm_only, overlay=overlay.store
    )
    print("\n".join(result.lines()))
    if any(item.name in result.differences for item in result.items):
        print(f"see the differences with: python -m conformance review {_write_run(path, manifest, result)}")
    return int(not result.is_complete)


def _target(manifest: Manifest) -> Target | None:
    """The row of this checkout that the archive's device has; None without one. Raises ArchiveError."""
    if not manifest.describes_gpu:
        target = targets().get(manifest.target)
        if target is None or target.device != manifest.device["type"]:
            raise ArchiveError(f"the archive is of {manifest.target}, and targets.toml has no such row")
        return target
    capability = tuple(manifest.device["capability"])
    found = matching_target(manifest.device["type"], (capability[0], capability[1]), manifest.device["properties"])
    return None if found.local else found


def _heading(archive: ConfirmArchive, target: Target | None) -> list[str]:
    """What the archive is of: the device, versions, and how the items ended."""
    manifest = archive.manifest
    product = manifest.device["properties"].get("name", manifest.device["type"])
    driver = f", driver {manifest.device['driver']}" if manifest.device["driver"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items() if version)
    name = target.name if target else manifest.target
    lines = [
        f"{name}: {product}{driver}; {versions}",
        f"{len(archive.items)} of {manifest.selected} selected items",
        *(f"{check} on the device: {counts}" for check, counts in _outcomes(archive)),
    ]
    if target is not None and manifest.describes_gpu:
        found = list(differing_properties(target, manifest.device["properties"]))
        lines += ["the device differs from its row in targets.toml:", *(f"  {line}" for line in found)] if found else []
        if not target.read_on_device:
            says = f'confirmed = "{product}, torch {manifest.torch}{driver}"'
            lines.append(f"{target.name} was not read on a device so far; its row can say: {says}")
    return lines


def _outcomes(archive: ConfirmArchive) -> list[tuple[str, str]]:
    """Check → "12 passed, 1 failed", for each check that was made on the device."""
    found: dict[str, Counter[str]] = {}
    for item in archive.items:
        for check, result in item.record.checks.items():
            found.setdefault(check, Counter())[result.outcome.value] += 1
    order = [each.value for each in Outcome]
    return [
        (check, ", ".join(f"{counts[word]} {word}" for word in order if counts[word]))
        for check, counts in found.items()
        if check in ("compile", "numerics", "deviceless", "device")
    ]


def _row(manifest: Manifest, name: str = "") -> str:
    return device_row(manifest.device["type"], manifest.device, manifest.torch, name)


def _add_row(manifest: Manifest, name: str, overlay: Overlay) -> Target:
    """Appends the device's row to the last table of the overlay, or else to targets.toml.

    Raises TargetError for a name that cannot be one, or is taken, and InstalledError for the table of an installation.
    """
    file = Path(overlay.targets[-1]) if overlay.targets else table.TABLE
    refuse_installed(file, "--targets FILE")
    family = manifest.target.partition("_")[0]
    if not re.fullmatch(rf"{family}_[a-z0-9_]+", name) or name in targets():
        raise TargetError(
            f"--add-row {name}: give a new name of lower-case letters, digits and _ that begins with {family}_"
        )
    text = file.read_text(encoding="utf-8").rstrip()
    atomic_files.write_atomically(file, "\n\n".join(filter(None, (text, _row(manifest, name)))) + "\n")
    targets.cache_clear()
    print(f"added to {file}: {name}")
    return targets()[name]


def _write_run(path: Path, manifest: Manifest, result: MergeResult) -> str:
    """Writes a run with all items of the archive, for `review`. Returns its name."""
    name = re.sub(r"[^\w.+-]", "_", path.stem)
    run = Run(runs_folder(project_here().root) / name)
    name_of_device = str(manifest.device["properties"].get("name", manifest.device["type"]))
    run.begin({
        "conformance": conformance.__version__,
        "torch": manifest.torch,
        "triton": manifest.versions.get("triton", ""),
        "targets": [manifest.target],
        "machine": {"gpus": {manifest.device["type"]: name_of_device}} if manifest.describes_gpu else {},
    })  # fmt: skip
    for item in result.items:
        run.write_item(item)
    return name
