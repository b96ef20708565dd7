"""The store of snapshots: one text file a case, each distinct part of a text once, under those that it belongs to.

    == torch 2.11 2.13: cpu_avx2 cpu_avx512
    == torch 2.15: cpu_avx2
    kernels     1: flip
    …

    == torch 2.13: cuda_sm80 cuda_sm90 cuda_sm100 (confirmed: cuda_sm90)
    …

A line names versions and targets of which each with each was seen. A text is what stands under the headers that name
it, from top to bottom; see layout.py. `confirmed`, where a text begins, names the targets whose real hardware gave it.
A line of a text that looks like a header, or like git's conflict markers, is stored with a backslash before it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.errors import ConformanceError
from conformance.storage import snapshot_format
from conformance.storage.snapshot_format import Key

_HEADER = re.compile(
    r"== torch (?P<torch>\d+\.\d+(?: \d+\.\d+)*): "
    r"(?P<targets>\S+(?: [^\s(]\S*)*)(?: \(confirmed: (?P<confirmed>[^()]+)\))?"
)
_VERSIONS = re.compile(rb"^== torch (\d+\.\d+(?: \d+\.\d+)*):", re.MULTILINE)
_SPECIAL = re.compile(r"(\\*)(== |<{7}|={7}|>{7}|\|{7})")
_CONFLICT = re.compile(r"<{7}( |$)|={7}$|>{7}( |$)|\|{7}( |$)")
_ESCAPED = re.compile(r"^\\(?=\\*(== |<{7}|={7}|>{7}|\|{7}))")
_CASE = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+][A-Za-z0-9_.+-]*)*")


class SnapshotError(ConformanceError):
    """The store cannot be read or written: says which file and line, and what mends it.

    `counts`: what had been stored when it was raised; None where nothing was to be.
    """

    counts: Counts | None = None


@dataclass(frozen=True)
class Counts:
    """Texts, one for each (case, torch, target): what a merge left on disk."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.new + other.new, self.changed + other.changed, self.unchanged + other.unchanged)


@dataclass
class Snapshot:
    """What is stored for one case. `texts`: (torch, target) → text; `confirmed`: those seen on real hardware."""

    texts: dict[Key, str] = field(default_factory=dict)
    confirmed: set[Key] = field(default_factory=set)

    def text(self, torch: str, target: str) -> str | None:
        return self.texts.get((release(torch), target))

    def is_confirmed(self, torch: str, target: str) -> bool:
        return (release(torch), target) in self.confirmed

    def versions(self) -> list[str]:
        """Stored torch versions, oldest first."""
        return sorted({torch for torch, _ in self.texts}, key=snapshot_format.number)

    def targets(self, torch: str) -> list[str]:
        """Targets stored for a torch version, in the file's order."""
        return [target for version, target in self.texts if version == release(torch)]

    def updated(self, texts: Mapping[Key, str], confirmed: Collection[Key] = ()) -> tuple[Snapshot, Counts]:
        """This snapshot with other texts in it. A changed text is no longer confirmed, unless it is so again."""
        after, counts = Snapshot(dict(self.texts), set(self.confirmed)), Counts()
        sure = {(release(torch), target) for torch, target in confirmed}
        seen: set[Key] = set()
        for (torch, target), given in texts.items():
            key, text = (release(torch), target), canonical(given)
            if key in seen:
                raise SnapshotError(f"two texts for torch {key[0]} and {target} in one merge")
            seen.add(key)
            before = self.texts.get(key)
            if before != text:
                after.confirmed.discard(key)
            if key in sure:
                after.confirmed.add(key)
            after.texts[key] = text
            counts += Counts(new=before is None, changed=before not in (None, text), unchanged=before == text)
        return after, counts

    def without(self, torch: str) -> Snapshot:
        version = release(torch)
        return Snapshot(
            {key: text for key, text in self.texts.items() if key[0] != version},
            {key for key in self.confirmed if key[0] != version},
        )


def release(torch: str) -> str:
    """`2.13.0+cpu` → `2.13`. Raises SnapshotError for what is no version."""
    match = re.match(r"(\d+)\.(\d+)(?![\d])", torch)
    if not match:
        raise SnapshotError(f"{torch!r} is no torch version; right would be 2.13 or 2.13.0+cpu")
    return f"{match[1]}.{match[2]}"


def canonical(text: str) -> str:
    """As a text is stored: no blanks at the ends of lines, no empty lines around it, one newline at its end."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).strip("\n") + "\n"


def parse(content: str, name: str) -> Snapshot:
    """The content of a file. `name`: the file's, for messages. Raises SnapshotError, naming the line."""
    headers: list[tuple[int, re.Match[str]]] = []
    lines: list[str] = []
    found = _Texts(name)
    content_lines = content.split("\n")
    for number, line in enumerate(content_lines, 1):
        if _CONFLICT.match(line):
            raise SnapshotError(_conflict_message(name, number))
    in_header = False
    for number, line in enumerate(content_lines, 1):
        if not line.startswith("== "):
            if not headers and line:
                raise SnapshotError(f"{name}:{number}: text before the first header, such as '== torch 2.13: cpu_avx2'")
            lines.append(_ESCAPED.sub("", line) if line.startswith("\\") else line)
            in_header = False
            continue
        header = _HEADER.fullmatch(line)
        if not header:
            raise SnapshotError(
                f"{name}:{number}: unreadable header {line!r}; right would be '== torch 2.13: cpu_avx2 cuda_sm90' "
                "or '== torch 2.13 2.15: cuda_sm80 cuda_sm90 (confirmed: cuda_sm90)'"
            )
        if not in_header:
            found.add(headers, lines)
            headers, lines = [], []
        in_header = True
        headers.append((number, header))
    found.add(headers, lines)
    return found.snapshot()


class _Texts:
    """The parts that a file gives for each (torch, target), in its order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._chunks: dict[Key, list[str]] = {}
        self._confirmed: set[Key] = set()

    def add(self, headers: Iterable[tuple[int, re.Match[str]]], lines: list[str]) -> None:
        """A block: its headers with their line numbers, its content."""
        chunk = canonical("\n".join(lines))[:-1]
        taken: set[Key] = set()
        for number, header in headers:
            targets = header["targets"].split()
            for key in [(torch, target) for torch in header["torch"].split() for target in targets]:
                if key in taken or not self._take(key, chunk):
                    raise SnapshotError(
                        f"{self._name}:{number}: torch {key[0]} has two texts for {key[1]}; keep one of them"
                    )
                taken.add(key)
            for target in (header["confirmed"] or "").split():
                if target not in targets:
                    raise SnapshotError(
                        f"{self._name}:{number}: {target} is confirmed but not among the targets of its line"
                    )
                self._confirmed |= {(torch, target) for torch in header["torch"].split()}

    def _take(self, key: Key, chunk: str) -> bool:
        """False for what cannot be a further part of the text."""
        chunks = self._chunks.setdefault(key, [])
        if chunks and not snapshot_format.continues(chunk):
            return False
        chunks.append(chunk)
        return True

    def snapshot(self) -> Snapshot:
        whole: dict[tuple[str, ...], str] = {}
        for key, chunks in self._chunks.items():
            if tuple(chunks) in whole:
                continue
            marks = list(snapshot_format.marks(chunks)) if len(chunks) > 1 else []
            if len(set(marks)) < len(marks):
                twice = next(mark for mark in marks if marks.count(mark) > 1)
                raise SnapshotError(
                    f"{self._name}: torch {key[0]} has two texts for {key[1]} ({' '.join(filter(None, twice))}); "
                    "keep one of them"
                )
            whole[tuple(chunks)] = "\n\n".join(chunks) + "\n"
        return Snapshot({key: whole[tuple(chunks)] for key, chunks in self._chunks.items()}, self._confirmed)


def _conflict_message(name: str, number: int) -> str:
    path = Path(name)
    function, _, labels = path.stem.partition("-")
    which = f"test_{function}[{labels}-" if labels else f"test_{function}["
    return (
        f"{name}:{number}: unresolved merge conflict. Take one side, then accept what is generated now:\n"
        f"  git checkout --ours -- {name} && EXPECTTEST_ACCEPT=1 pytest {_test_file(path)} -k '{which}'"
    )


def _test_file(path: Path) -> Path:
    """The test file of a snapshot's case: beside the store's folder, or in a folder beside it."""
    owner, name = path.parent.parent.parent, f"test_{path.parent.name}.py"
    there = sorted([*owner.glob(name), *owner.glob(f"*/{name}")])
    return there[0] if there else owner / name


class Store:
    """The snapshots below `root`, `<root>/<case id>.txt`. `targets`: their order in headers; others follow, sorted."""

    def __init__(self, root: Path, targets: Sequence[str] = ()) -> None:
        self.root = Path(root)
        self._rank = {target: number for number, target in enumerate(targets)}

    def path(self, case_id: str) -> Path:
        if not _CASE.fullmatch(case_id) or case_id.endswith(".txt"):
            raise SnapshotError(f"{case_id!r} is no case's id; right would be 'flip/hflip-224-u8'")
        return self.root / f"{case_id}.txt"

    def cases(self) -> list[str]:
        """Ids of the cases that something is stored for, sorted."""
        return sorted(path.relative_to(self.root).with_suffix("").as_posix() for path in self.root.rglob("[!.]*.txt"))

    def versions(self) -> list[str]:
        """The torch versions that anything is stored for, oldest first, as the headers of the files say."""
        found: set[str] = set()
        for case_id in self.cases():
            with contextlib.suppress(OSError):  # reading the case says so
                for said in _VERSIONS.findall(self.path(case_id).read_bytes()):
                    found.update(said.decode().split())
        return sorted(found, key=snapshot_format.number)

    def read(self, case_id: str) -> Snapshot | None:
        """What is stored for a case; None where nothing is. Raises SnapshotError for a file that cannot be read."""
        path = self.path(case_id)
        try:
            content = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"{path}: cannot be read: {error}") from error
        return parse(content, str(path))

    def format(self, snapshot: Snapshot) -> str:
        """The file's content: the same for the same snapshot, in whatever order it was put together."""
        begun: set[Key] = set()
        written = []
        for keys, content in snapshot_format.blocks(snapshot.texts, self._order):
            written.append(self._block(content, keys, snapshot.confirmed - begun))
            begun |= set(keys)
        return "\n".join(written)

    def _order(self, key: Key) -> tuple:
        torch, target = key
        return self._rank.get(target, len(self._rank)), target, snapshot_format.number(torch)

    def _block(self, text: str, keys: list[Key], confirmed: Collection[Key]) -> str:
        def note(version: str, targets: list[str]) -> str:
            sure = [target for target in targets if (version, target) in confirmed]
            return f"{' '.join(targets)}{f' (confirmed: {chr(32).join(sure)})' if sure else ''}"

        headers = [
            f"== torch {' '.join(versions)}: {said}\n" for versions, said in snapshot_format.versions_alike(keys, note)
        ]
        lines = ["\\" + line if _SPECIAL.match(line) else line for line in text.split("\n")]
        return "".join(headers) + "\n".join(lines)

    def merge(
        self,
        updates: Mapping[str, Mapping[Key, str]],
        confirmed: Mapping[str, Collection[Key]] | None = None,
    ) -> Counts:
        """Stores texts: case id → (torch, target) → text. `confirmed`: those that real hardware gave.

        Any number of processes may merge at once, and be killed: each file is the old or the new one, whole. Returns
        what is on disk, read back. Raises SnapshotError, its `counts` set, where some could not be stored; the others
        are.
        """
        for case_id, texts in updates.items():
            self.path(case_id)
            for _, target in texts:
                if not re.fullmatch(r"[A-Za-z0-9_.+-]+", target):
                    raise SnapshotError(f"{target!r} is no target's name")
        total, errors = Counts(), []
        with atomic_files.lock_folder(self.root, SnapshotError):
            for case_id in sorted(updates):
                counts, error = self._tried(case_id, updates[case_id], (confirmed or {}).get(case_id, ()))
                total += counts
                if error:
                    errors.append(str(error))
                if error and isinstance(error.__cause__, OSError):
                    break  # the disk is full or read-only: the others would fail likewise
        if errors:
            stored = total.new + total.changed
            failure = SnapshotError(
                "\n".join([*errors, f"{stored} new or changed texts were stored before or beside it"])
            )
            failure.counts = total
            raise failure
        return total

    def _tried(self, *arguments: Any) -> tuple[Counts, SnapshotError | None]:
        try:
            return self._merge_one(*arguments), None
        except SnapshotError as error:
            return Counts(), error

    def _merge_one(self, case_id: str, texts: Mapping[Key, str], confirmed: Collection[Key]) -> Counts:
        before = self.read(case_id)
        after, counts = (before or Snapshot()).updated(texts, confirmed)
        if texts and (before is None or after != before):
            self._write(case_id, after)
        return counts

    def _write(self, case_id: str, snapshot: Snapshot) -> None:
        path = self.path(case_id)
        try:
            if snapshot.texts:
                atomic_files.write_atomically(path, self.format(snapshot))
            else:
                path.unlink(missing_ok=True)
        except (OSError, UnicodeEncodeError) as error:
            raise SnapshotError(f"{path}: not stored, the old file is as it was: {error}") from error
        if (self.read(case_id) or Snapshot()) != snapshot:
            raise SnapshotError(f"{path}: what was read back is not what was stored; check the disk, then merge again")

    def remove(self, case_ids: Iterable[str]) -> None:
        """Removes the files of cases. Raises SnapshotError where one could not be."""
        with atomic_files.lock_folder(self.root, SnapshotError):
            for case_id in case_ids:
                self._write(case_id, Snapshot())

    def drop(self, torch: str) -> int:
        """Removes all texts of a torch version, and files that hold nothing else. Returns how many texts went."""
        dropped = 0
        with atomic_files.lock_folder(self.root, SnapshotError):
            for case_id in self.cases():
                before = self.read(case_id) or Snapshot()
                after = before.without(torch)
                if after != before:
                    self._write(case_id, after)
                    dropped += len(before.texts) - len(after.texts)
        return dropped
