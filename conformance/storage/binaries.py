"""Reads and writes the stored properties of binaries: a line for each configuration of each kernel.

    torch 2.13, Triton 3.7.1

    == hflip-224-u8-contiguous: cuda_sm80 cuda_sm90
    triton_poi_fused_flip_0 XBLOCK=1024 num_warps=4 num_stages=1: registers 28, spills 0, shared_memory 0, …

Each operator has one file, `expected_binary/<operator>.txt`. It holds the binaries of one torch and one Triton version,
because another version of ptxas gives other numbers. Only `--checks binary` reads it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import atomic_files
from conformance.devices.environment import triton_version
from conformance.documentation import reference
from conformance.errors import ConformanceError, NotStoredError
from conformance.storage.check_results import Outcome
from conformance.storage.installed import refuse_installed
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import torch_release

FOLDER = "expected_binary"
#: The message of an item without stored binaries contains this.
NO_BINARIES = "no binaries are stored"

_VERSIONS = re.compile(r"torch (\S+), Triton (\S+)")
_HEADING = re.compile(r"== (\S+): (\S.*)")

#: (case id without the operator, target)
CaseTarget = tuple[str, str]


class BinaryError(ConformanceError, AssertionError):
    """The binaries of an item differ from the stored ones, or none are stored."""


class NoStoredBinariesError(NotStoredError, BinaryError):
    """Nothing is stored yet for the binaries of an item."""


class BinaryFileError(ConformanceError, ValueError):
    """A file cannot be read or written. The message names the file and line."""


@dataclass
class BinaryFile:
    """The content of a file. `torch`: "2.13"; "" if there is no file. `lines`: of each (case, target)."""

    torch: str = ""
    triton: str = ""
    lines: dict[CaseTarget, tuple[str, ...]] = field(default_factory=dict)

    def has_versions(self, torch: str) -> bool:
        """Returns whether the file holds binaries of this torch version and of the installed Triton."""
        return (self.torch, self.triton) == (torch_release(torch), triton_version())

    def lines_of(self, case_id: str, target: str) -> tuple[str, ...] | None:
        """Returns the stored lines of an item; None if none are stored."""
        return self.lines.get(_key(case_id, target))

    def case_ids(self, path: Path) -> list[str]:
        """Returns the ids of the cases, sorted. `path`: of this file; its name is the operator."""
        return sorted({f"{path.stem}/{case}" for case, _ in self.lines})


def file_of_case(expected_code: Path, case_id: str) -> Path:
    """Returns the file for a case's binaries. `expected_code`: the folder of its snapshots."""
    return expected_code.with_name(FOLDER) / f"{case_id.partition('/')[0]}.txt"


def stored_lines(files: Sequence[Path], case_id: str, target: str, torch: str) -> tuple[str, ...] | None:
    """Returns the stored lines of an item: from the first file that has them. `files`: an overlay's before others.

    Returns None if none are stored, and no lines if all files are of another torch or Triton: another ptxas gives other
    numbers. Raises BinaryFileError.
    """
    stored = [each for each in map(read, files) if each.lines]
    usable = [each for each in stored if each.has_versions(torch)]
    found = (each.lines_of(case_id, target) for each in usable)
    return next((lines for lines in found if lines is not None), () if stored and not usable else None)


def files_beside(expected_code: Path) -> list[Path]:
    """Returns all files of binaries for a folder of snapshots, sorted."""
    return sorted(expected_code.with_name(FOLDER).glob("[!.]*.txt"))


def remove_cases(path: Path, case_ids: Iterable[str], order: Sequence[str]) -> None:
    """Removes cases from a file; removes the file if no case is left. `order`: of targets. Raises BinaryFileError."""
    refuse_installed(path)
    gone = {case_id.partition("/")[2] for case_id in case_ids}
    with atomic_files.lock_folder(path.parent, BinaryFileError):
        stored = read(path)
        stored.lines = {key: lines for key, lines in stored.lines.items() if key[0] not in gone}
        write(path, stored, order)


def remove_version(expected_code: Path, torch: str) -> int:
    """Removes the files of a torch version. Returns the number of removed files. Raises BinaryFileError."""
    paths = [path for path in files_beside(expected_code) if read(path).torch == torch_release(torch)]
    for path in paths:
        remove_cases(path, read(path).case_ids(path), ())
    return len(paths)


def _key(case_id: str, target: str) -> CaseTarget:
    return case_id.partition("/")[2], target


def read(path: Path) -> BinaryFile:
    """Reads a file; returns an empty BinaryFile if there is no file. Raises BinaryFileError."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return BinaryFile()
    except (OSError, UnicodeDecodeError) as error:
        raise BinaryFileError(f"{path}: cannot be read: {error}") from error
    first, *rest = content.splitlines() or [""]
    versions = _VERSIONS.fullmatch(first)
    if not versions:
        raise BinaryFileError(f"{path}:1: the first line is {first!r}; write it like 'torch 2.13, Triton 3.7.1'")
    stored = BinaryFile(versions[1], versions[2])
    keys: list[CaseTarget] = []
    for number, line in enumerate(rest, 2):
        heading = _HEADING.fullmatch(line)
        if heading:
            keys = [(heading[1], target) for target in heading[2].split()]
            if twice := next((key for key in keys if key in stored.lines), None):
                raise BinaryFileError(f"{path}:{number}: {' for '.join(twice)} has two headings; keep one")
            stored.lines |= dict.fromkeys(keys, ())
        elif line and not keys:
            raise BinaryFileError(
                f"{path}:{number}: text before the first heading; a heading looks like '== hflip-224: cuda_sm90'"
            )
        elif line:
            stored.lines |= {key: (*stored.lines[key], line) for key in keys}
    return stored


def write(path: Path, stored: BinaryFile, order: Sequence[str]) -> None:
    """Writes a file; removes it if `stored` is empty. `order`: of the targets. Raises BinaryFileError."""
    ranks = {target: rank for rank, target in enumerate(order)}
    same_lines: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (case, target), lines in sorted(stored.lines.items(), key=lambda item: (item[0][0], ranks.get(item[0][1], 99))):
        same_lines[case, lines].append(target)
    blocks = ["\n".join([f"== {case}: {' '.join(targets)}", *lines]) for (case, lines), targets in same_lines.items()]
    try:
        if blocks:
            atomic_files.write_atomically(
                path, "\n\n".join([f"torch {stored.torch}, Triton {stored.triton}", *blocks]) + "\n"
            )
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise BinaryFileError(f"{path}: not stored: {error}") from error


_DOCUMENTED = f"what is stored of binaries: {reference('binaries', 'what-is-stored')}"


def check_lines(name: str, stored: Sequence[str] | None, lines: Sequence[str], accept: str) -> None:
    """Raises BinaryError if the lines of an item differ from the stored lines, or if none are stored.

    `accept`: the command that accepts the lines, for the message.
    """
    if stored is None:
        raise NoStoredBinariesError(f"{name}: {NO_BINARIES}\n\naccept them with: {accept}\n{_DOCUMENTED}")
    if list(stored) != list(lines):
        removed = [f"  - {line}" for line in stored if line not in lines]
        added = [f"  + {line}" for line in lines if line not in stored]
        changes = "\n".join([*removed, *added]) or "  the order of the kernels changed"
        raise BinaryError(
            f"{name}: binaries differ from the stored ones:\n{changes}\n\naccept them with: {accept}\n{_DOCUMENTED}"
        )


def accept_binaries(items: Iterable[ItemRecord], mode: str, targets: Sequence[str], overlay: str = "") -> list[str]:
    """Stores the lines of items. Returns the lines that report it. Raises BinaryFileError.

    `mode`: "all"; "new" stores only items that are not stored yet. `targets`: in the order of the files. Ignores items
    whose numerics failed. Replaces a file of other versions of torch or Triton. `overlay`: the expected_code/ of an
    overlay: then only its files are written, and hold no lines that the file below has too; "" for none.
    Raises InstalledError for a file of an installed package.
    """
    accepted: dict[Path, dict[CaseTarget, tuple[str, ...]]] = defaultdict(dict)
    torch = ""
    for item in items:
        if item.binaries and item.text and item.target in targets and item.outcome("numerics") is not Outcome.FAILED:
            below = file_of_case(Path(item.store), item.case)
            accepted[below][_key(item.case, item.target)] = tuple(item.binaries)
            torch = item.torch
    report = []
    for below, lines in sorted(accepted.items()):
        file = file_of_case(Path(overlay), f"{below.stem}/") if overlay else below
        refuse_installed(file)
        with atomic_files.lock_folder(file.parent, BinaryFileError):
            stored = read(file)
            if not stored.has_versions(torch):
                stored = BinaryFile(torch_release(torch), triton_version())
            lower = read(below).lines if overlay and read(below).has_versions(torch) else {}
            before = lower | stored.lines
            selected = {key: value for key, value in lines.items() if mode == "all" or key not in before}
            changed = {key for key, value in selected.items() if before.get(key) != value}
            stored.lines |= selected
            stored.lines = {key: value for key, value in stored.lines.items() if lower.get(key) != value}
            if changed:
                write(file, stored, targets)
        unchanged = len(lines) - len(changed)
        report.append(f"binaries: {file.name}: {len(changed)} new or changed, {unchanged} unchanged")
    return report
