"""A store of digests: one table for each torch version, target and dtype, instead of a file for each case.

    expected_digests/torch2.13/cuda_sm90/opinfo-f32.txt

    == digests 1: torch 2.13, cuda_sm90
    abs-f32-backward-sample0  0x3f7c0a52b19e4d68  kernels 2 (1 forward, 1 backward); kinds 2 pointwise; bytes 1
    …

A line is a case: its name, the digest of its text with a star if real hardware gave it, and facts in short; see
digests.py. Lines are sorted by name. A test file has such a store if `expected_digests/` lies where `expected_code/`
would: locations.py.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import atomic_files
from conformance.cases.dtypes import DTYPES
from conformance.storage import digests, snapshot_format
from conformance.storage.installed import refuse_installed
from conformance.storage.overlaid_store import OverlaidStore
from conformance.storage.snapshot_format import TextKey
from conformance.storage.snapshots import Counts, Snapshot, SnapshotError, Store, torch_release

#: The format that this release writes and reads: the number in a table's first line.
FORMAT = 1
_HEADER = re.compile(r"== digests (\d+): torch (\d+\.\d+), (\S+)")
_FOLDER = re.compile(r"torch(\d+\.\d+)")


@dataclass
class _Table:
    """`lines`: name of a case, without its operator → (digest text, whether it is confirmed)."""

    lines: dict[str, tuple[str, bool]] = field(default_factory=dict)


class DigestStore(Store):
    """The tables in a folder. A text is a digest with facts in short, as digests.digest_text makes it."""

    def __init__(self, root: Path, targets: Sequence[str] = ()) -> None:
        super().__init__(root, targets)
        self._read: dict[Path, tuple[tuple[int, int], _Table]] = {}
        self._changed: dict[Path, _Table] | None = None  # while tables are written: the new ones

    def path(self, case_id: str) -> Path:
        """The folder of the tables that have a line for the case. Raises SnapshotError for a text that is no id."""
        super().path(case_id)
        return self.root

    def own_cases(self) -> list[str]:
        return sorted(
            {f"{self._operator(file)}/{name}" for _, file in self._files() for name in self._table(file).lines}
        )

    def versions(self) -> list[str]:
        return sorted({torch for (torch, _), _ in self._files()}, key=snapshot_format.version_number)

    def has_target(self, target: str) -> bool:
        return any(key[1] == target for key, _ in self._files())

    def has_table(self, case_id: str, torch: str, target: str) -> bool:
        """Whether there is a table that would have a line for the case."""
        return self._file((torch_release(torch), target), _file_name(case_id)).is_file()

    def read_own(self, case_id: str) -> Snapshot | None:
        self.path(case_id)
        file_name, name = _file_name(case_id), case_id.partition("/")[2]
        snapshot = Snapshot()
        for key, file in sorted(self._files(file_name), key=lambda each: self._order(each[0])):
            if name in (lines := self._table(file).lines):
                snapshot.texts[key], is_confirmed = lines[name]
                snapshot.confirmed |= {key} if is_confirmed else set()
        return snapshot if snapshot.texts else None

    def merge(
        self,
        updates: Mapping[str, Mapping[TextKey, str]],
        confirmed: Mapping[str, Collection[TextKey]] | None = None,
    ) -> Counts:
        """As Store.merge. Changes whole tables: each is written once, at the end."""
        with self._writing():
            return super().merge(updates, confirmed)

    def remove(self, case_ids: Iterable[str]) -> None:
        with self._writing():
            super().remove(case_ids)

    def drop(self, torch: str) -> int:
        refuse_installed(self.root)
        with atomic_files.lock_folder(self.root, SnapshotError):
            files = [file for key, file in self._files() if key[0] == torch]
            dropped = sum(len(self._table(file).lines) for file in files)
            for file in files:
                self._write_table(file, _Table())
        return dropped

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Inside, `_write` collects changes, and `_finish_merge` writes the tables."""
        self._changed = {}
        try:
            yield
        finally:
            self._changed = None

    def _write(self, case_id: str, snapshot: Snapshot) -> None:
        if self._changed is None:
            raise SnapshotError(f"{self.root}: a digest is stored only by merge() and remove()")
        name, file_name = case_id.partition("/")[2], _file_name(case_id)
        old = [key for key, _ in self._files(file_name)]
        for key in dict.fromkeys((*old, *snapshot.texts)):
            file = self._file(key, file_name)
            table = self._changed.get(file) or _Table(dict(self._table(file).lines))
            if key in snapshot.texts:
                table.lines[name] = snapshot.texts[key], key in snapshot.confirmed
            else:
                table.lines.pop(name, None)
            self._changed[file] = table

    def _finish_merge(self) -> tuple[Counts, list[str]]:
        lost, problems = Counts(), []
        for file, table in (self._changed or {}).items():
            before = self._table(file)
            if table == before:
                continue
            try:
                self._write_table(file, table)
            except SnapshotError as error:
                problems.append(str(error))
                for name, line in table.lines.items():
                    is_new = name not in before.lines
                    lost += Counts(new=is_new, changed=not is_new and before.lines[name] != line)
        return lost, problems

    def _write_table(self, file: Path, table: _Table) -> None:
        """Writes a table atomically and reads it back. Raises SnapshotError."""
        try:
            if table.lines:
                atomic_files.write_atomically(file, self._content(file, table))
            else:
                file.unlink(missing_ok=True)
                for folder in (file.parent, file.parent.parent):
                    with contextlib.suppress(OSError):  # it has other tables
                        folder.rmdir()
        except OSError as error:
            raise SnapshotError(f"{file}: not stored, the old file is unchanged: {error}") from error
        if self._table(file, again=True) != table:
            raise SnapshotError(
                f"{file}: the content read back differs from the content written; check the disk, then accept again"
            )

    def _content(self, file: Path, table: _Table) -> str:
        torch, target = self._key(file)
        lines = [digests.line_of(name, text, confirmed=ok) for name, (text, ok) in sorted(table.lines.items())]
        return "\n".join([f"== digests {FORMAT}: torch {torch}, {target}", *lines, ""])

    def _files(self, name: str = "*.txt") -> list[tuple[TextKey, Path]]:
        """The tables with that file name: ((torch, target), file)."""
        found = sorted(self.root.glob(f"torch*/*/{name}"))
        return [(self._key(file), file) for file in found if _FOLDER.fullmatch(file.parent.parent.name)]

    def _file(self, key: TextKey, name: str) -> Path:
        return self.root / f"torch{key[0]}" / key[1] / name

    @staticmethod
    def _key(file: Path) -> TextKey:
        return file.parent.parent.name.removeprefix("torch"), file.parent.name

    @staticmethod
    def _operator(file: Path) -> str:
        operator, _, dtype = file.stem.rpartition("-")
        return operator if dtype in DTYPES else file.stem

    def _table(self, file: Path, *, again: bool = False) -> _Table:
        """The table of a file; empty if there is none. Reads a file again if it changed since the last time."""
        try:
            status = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return _Table()
        state = (status.st_mtime_ns, status.st_size)
        if again or file not in self._read or self._read[file][0] != state:
            self._read[file] = state, self._parsed(file)
        return self._read[file][1]

    def _parsed(self, file: Path) -> _Table:
        try:
            header, *lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"{file}: cannot be read: {error}") from error
        match = _HEADER.fullmatch(header)
        if match and int(match[1]) > FORMAT:
            raise SnapshotError(
                f"{file} has format {match[1]} of digests, and this release of conformance reads format {FORMAT}: use "
                "the release that wrote it, or a newer one; the file was not changed"
            )
        if not match or (match[2], match[3]) != self._key(file):
            torch, target = self._key(file)
            raise SnapshotError(f"{file}:1: the first line must be '== digests {FORMAT}: torch {torch}, {target}'")
        table = _Table()
        for number, line in enumerate(lines, 2):
            if not line:
                continue
            found = digests.text_of_line(line)
            if found is None:
                raise SnapshotError(
                    f"{file}:{number}: unreadable line {line[:80]!r}; take one side of a merge conflict, then accept "
                    "again: EXPECTTEST_ACCEPT=1 pytest …"
                )
            name, text, is_confirmed = found
            if name in table.lines:
                raise SnapshotError(f"{file}:{number}: {name} has two lines; keep one of them")
            table.lines[name] = text, is_confirmed
        return table


class OverlaidDigestStore(OverlaidStore, DigestStore):
    """A store of digests laid over another one."""

    def has_table(self, case_id: str, torch: str, target: str) -> bool:
        is_below = isinstance(self.below, DigestStore) and self.below.has_table(case_id, torch, target)
        return is_below or super().has_table(case_id, torch, target)


def _file_name(case_id: str) -> str:
    """The file name of the tables that have a case: its operator, and its dtype if its first label is one."""
    operator, _, name = case_id.partition("/")
    labels = name.split("-")[1:]
    return f"{operator}-{labels[0]}.txt" if labels and labels[0] in DTYPES else f"{operator}.txt"
