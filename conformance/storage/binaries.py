"""What is stored of binaries: a line for each configuration of each kernel, of one torch and one Triton.

    torch 2.13, Triton 3.7.1

    == hflip-224-u8-contiguous: cuda_sm80 cuda_sm90
    triton_poi_fused_flip_0 XBLOCK=1024 num_warps=4 num_stages=1: registers 28, spills 0, shared_memory 0, …

A file an operator, `expected_binary/<operator>.txt`, of one pair of versions: another ptxas gives other numbers. Looked
at by `--checks binary` alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import atomic_files
from conformance.devices.environment import triton_version
from conformance.errors import ConformanceError
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import torch_release

FOLDER = "expected_binary"

_VERSIONS = re.compile(r"torch (\S+), Triton (\S+)")
_HEADING = re.compile(r"== (\S+): (\S.*)")

#: (case without its operator, target)
Key = tuple[str, str]


class BinaryError(ConformanceError, AssertionError):
    """Binaries that are not what is stored, or none stored."""


class BinaryFileError(ConformanceError, ValueError):
    """A file that cannot be read or written; the message names the line."""


@dataclass
class Stored:
    """One file. `torch`: a release, such as 2.13; "" for no file."""

    torch: str = ""
    triton: str = ""
    lines: dict[Key, tuple[str, ...]] = field(default_factory=dict)

    def is_of(self, torch: str) -> bool:
        """Whether it was made with this torch and the Triton that is here."""
        return (self.torch, self.triton) == (torch_release(torch), triton_version())

    def of(self, case_id: str, target: str) -> tuple[str, ...] | None:
        return self.lines.get(_key(case_id, target))

    def cases(self, path: Path) -> list[str]:
        """Ids of its cases, sorted; the operator is the file's name."""
        return sorted({f"{path.stem}/{case}" for case, _ in self.lines})


def path(expected_code: Path, case_id: str) -> Path:
    """The file that holds a case's binaries, beside the folder of its code."""
    return expected_code.with_name(FOLDER) / f"{case_id.partition('/')[0]}.txt"


def files_beside(expected_code: Path) -> list[Path]:
    """All files of binaries beside the folder of a store's code, sorted."""
    return sorted(expected_code.with_name(FOLDER).glob("[!.]*.txt"))


def remove(path: Path, case_ids: Iterable[str], order: Sequence[str]) -> None:
    """Takes cases out of a file, and the file where nothing is left. Raises BinaryFileError."""
    gone = {case_id.partition("/")[2] for case_id in case_ids}
    with atomic_files.lock_folder(path.parent, BinaryFileError):
        stored = read(path)
        stored.lines = {key: lines for key, lines in stored.lines.items() if key[0] not in gone}
        write(path, stored, order)


def drop(expected_code: Path, torch: str) -> int:
    """Removes the files beside a store's code that were made with a torch version. Returns how many there were."""
    found = [path for path in files_beside(expected_code) if read(path).torch == torch_release(torch)]
    for path in found:
        remove(path, read(path).cases(path), ())
    return len(found)


def _key(case_id: str, target: str) -> Key:
    return case_id.partition("/")[2], target


def read(path: Path) -> Stored:
    """Raises BinaryFileError."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Stored()
    except (OSError, UnicodeDecodeError) as error:
        raise BinaryFileError(f"{path}: cannot be read: {error}") from error
    first, *rest = content.splitlines() or [""]
    versions = _VERSIONS.fullmatch(first)
    if not versions:
        raise BinaryFileError(f"{path}:1: {first!r}; right would be 'torch 2.13, Triton 3.7.1'")
    stored = Stored(*versions.groups())
    keys: list[Key] = []
    for number, line in enumerate(rest, 2):
        heading = _HEADING.fullmatch(line)
        if heading:
            keys = [(heading[1], target) for target in heading[2].split()]
            if twice := next((key for key in keys if key in stored.lines), None):
                raise BinaryFileError(f"{path}:{number}: {' for '.join(twice)} is there twice; keep one")
            stored.lines |= dict.fromkeys(keys, ())
        elif line and not keys:
            raise BinaryFileError(
                f"{path}:{number}: a line before the first heading, such as '== hflip-224: cuda_sm90'"
            )
        elif line:
            stored.lines |= {key: (*stored.lines[key], line) for key in keys}
    return stored


def write(path: Path, stored: Stored, order: Sequence[str]) -> None:
    """`order`: of the targets. Nothing stored is no file. Raises BinaryFileError."""
    ranks = {target: rank for rank, target in enumerate(order)}
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (case, target), lines in sorted(stored.lines.items(), key=lambda item: (item[0][0], ranks.get(item[0][1], 99))):
        alike[case, lines].append(target)
    blocks = ["\n".join([f"== {case}: {' '.join(targets)}", *lines]) for (case, lines), targets in alike.items()]
    try:
        if blocks:
            atomic_files.write_atomically(
                path, "\n\n".join([f"torch {stored.torch}, Triton {stored.triton}", *blocks]) + "\n"
            )
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise BinaryFileError(f"{path}: not stored: {error}") from error


def compare(name: str, before: Sequence[str] | None, now: Sequence[str], accept: str) -> None:
    """`before`: what is stored, if anything. Raises BinaryError with the lines that went and came."""
    if before is None:
        raise BinaryError(f"{name}: no binaries are stored\n\naccept them with: {accept}")
    if list(before) != list(now):
        gone = [f"  - {line}" for line in before if line not in now]
        come = [f"  + {line}" for line in now if line not in before]
        said = "\n".join([*gone, *come]) or "  the same kernels in another order"
        raise BinaryError(f"{name}: other binaries than those stored:\n{said}\n\naccept them with: {accept}")


def accept(items: Iterable[ItemRecord], mode: str, targets: Sequence[str]) -> list[str]:
    """Stores the items' lines; `mode`: "all", or "new" for what is not stored yet. `targets`: in the files' order.

    Nothing is taken from an item whose numerics failed. A file of other versions begins anew. Returns what to say.
    Raises BinaryFileError.
    """
    wanted: dict[Path, dict[Key, tuple[str, ...]]] = defaultdict(dict)
    torch = ""
    for item in items:
        if item.binaries and item.text and item.target in targets and item.outcome("numerics") is not Outcome.FAILED:
            wanted[path(Path(item.store), item.case)][_key(item.case, item.target)] = tuple(item.binaries)
            torch = item.torch
    said = []
    for file, lines in sorted(wanted.items()):
        with atomic_files.lock_folder(file.parent, BinaryFileError):
            stored = read(file)
            if not stored.is_of(torch):
                stored = Stored(torch_release(torch), triton_version())
            taken = {key: value for key, value in lines.items() if mode == "all" or key not in stored.lines}
            changed = {key for key, value in taken.items() if stored.lines.get(key) != value}
            stored.lines |= taken
            if changed:
                write(file, stored, targets)
        said.append(f"binaries: {file.name}: {len(changed)} new or changed, {len(lines) - len(changed)} as they were")
    return said
