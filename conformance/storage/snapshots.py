"""Reads and writes snapshots: one text file for each case, `<store>/<operator>/<case>.txt`.

    == torch 2.11 2.13: cpu_avx2 cpu_avx512
    == torch 2.15: cpu_avx2
    kernels     1: flip
    …

    == torch 2.13: cuda_sm80 cuda_sm90 cuda_sm100 (confirmed: cuda_sm90)
    …

snapshot_format.py explains the format with an example. If a line of a text looks like a header, or like a conflict
marker of git, the file has a backslash before it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import atomic_files
from conformance.devices.targets import code_base_of
from conformance.errors import ConformanceError
from conformance.normalize.text import canonical_text
from conformance.storage import snapshot_format
from conformance.storage.installed import refuse_installed
from conformance.storage.snapshot_format import TextKey

_HEADER = re.compile(
    r"== torch (?P<torch>\d+\.\d+(?: \d+\.\d+)*): "
    r"(?P<targets>\S+(?: [^\s(]\S*)*)(?: \(confirmed: (?P<confirmed>[^()]+)\))?"
)
#: The format that this release writes and reads. A file says so in its first line, `== format 2`; without one it is 1.
FORMAT = 1
_FORMAT = re.compile(r"== format (\d+)")
_VERSIONS = re.compile(rb"^== torch (\d+\.\d+(?: \d+\.\d+)*):", re.MULTILINE)
_SPECIAL = re.compile(r"(\\*)(== |<{7}|={7}|>{7}|\|{7})")
_CONFLICT = re.compile(r"<{7}( |$)|={7}$|>{7}( |$)|\|{7}( |$)")
_ESCAPED = re.compile(r"^\\(?=\\*(== |<{7}|={7}|>{7}|\|{7}))")
_CASE = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+][A-Za-z0-9_.+-]*)*")


class SnapshotError(ConformanceError):
    """A snapshot cannot be read or written. The message names the file and line, and how to repair it.

    `counts`: after a merge that failed in part, what was stored; else None.
    """

    counts: Counts | None = None


@dataclass(frozen=True)
class Counts:
    """How many texts, one for each case, torch version and target, a merge added, changed and left unchanged."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.new + other.new, self.changed + other.changed, self.unchanged + other.unchanged)

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.new - other.new, self.changed - other.changed, self.unchanged - other.unchanged)


@dataclass
class Snapshot:
    """The stored texts of one case. `confirmed`: the texts that real hardware gave.

    `upper`: the texts that an overlay has, see overlaid_store.py.
    """

    texts: dict[TextKey, str] = field(default_factory=dict)
    confirmed: set[TextKey] = field(default_factory=set)
    upper: set[TextKey] = field(default_factory=set, compare=False)

    def text(self, torch: str, target: str) -> str | None:
        """Returns the stored text. Where nothing is stored for a variant, that of the target it is a variant of."""
        release = torch_release(torch)
        own = self.texts.get((release, target))
        return own if own is not None else self.texts.get((release, code_base_of(target)))

    def is_inherited(self, torch: str, target: str) -> bool:
        """Returns whether `text` returns the text of another target."""
        return (torch_release(torch), target) not in self.texts and self.text(torch, target) is not None

    def is_confirmed(self, torch: str, target: str) -> bool:
        return (torch_release(torch), target) in self.confirmed

    def is_of_overlay(self, torch: str, target: str) -> bool:
        """Returns whether `text` returns a text of the overlay."""
        release = torch_release(torch)
        key = (release, target) if (release, target) in self.texts else (release, code_base_of(target))
        return key in self.upper

    def versions(self) -> list[str]:
        """Returns the stored torch versions, oldest first."""
        return sorted({torch for torch, _ in self.texts}, key=snapshot_format.version_number)

    def targets(self, torch: str) -> list[str]:
        """Returns the targets stored for a torch version, in the order of the file."""
        return [target for version, target in self.texts if version == torch_release(torch)]

    def with_texts(self, texts: Mapping[TextKey, str], confirmed: Collection[TextKey] = ()) -> tuple[Snapshot, Counts]:
        """Returns this snapshot with new texts added or replaced. A replaced text loses its confirmation.

        `confirmed`: the new texts that real hardware gave. Raises SnapshotError for two texts with one key.
        """
        after, counts = Snapshot(dict(self.texts), set(self.confirmed)), Counts()
        new_confirmed = {(torch_release(torch), target) for torch, target in confirmed}
        new_keys: set[TextKey] = set()
        for (torch, target), content in texts.items():
            key, text = (torch_release(torch), target), canonical_text(content)
            if key in new_keys:
                raise SnapshotError(f"two texts for torch {key[0]} and {target} in one merge")
            new_keys.add(key)
            before = self.texts.get(key)
            if before != text:
                after.confirmed.discard(key)
            if key in new_confirmed:
                after.confirmed.add(key)
            after.texts[key] = text
            counts += Counts(new=before is None, changed=before not in (None, text), unchanged=before == text)
        return after, counts

    def without_version(self, torch: str) -> Snapshot:
        """Returns this snapshot without the texts of a torch version."""
        version = torch_release(torch)
        return Snapshot(
            {key: text for key, text in self.texts.items() if key[0] != version},
            {key for key in self.confirmed if key[0] != version},
        )


def torch_release(torch: str) -> str:
    """Returns "2.13" for "2.13.0+cpu". Raises SnapshotError for a text that is not a version."""
    match = re.match(r"(\d+)\.(\d+)(?![\d])", torch)
    if not match:
        raise SnapshotError(f"{torch!r} is not a torch version; write 2.13 or 2.13.0+cpu")
    return f"{match[1]}.{match[2]}"


def parse(content: str, name: str) -> Snapshot:
    """Parses the content of a file. `name`: the file's name, for messages. Raises SnapshotError that names the line."""
    headers: list[tuple[int, re.Match[str]]] = []
    lines: list[str] = []
    texts = _TextCollector(name)
    content_lines = content.split("\n")
    if format_line := _FORMAT.fullmatch(content_lines[0]):
        if int(format_line[1]) > FORMAT:
            raise SnapshotError(
                f"{name} has snapshot format {format_line[1]}, and this release of conformance reads format {FORMAT}: "
                "use the release that wrote it, or a newer one; the file was not changed"
            )
        content_lines[0] = ""
    for number, line in enumerate(content_lines, 1):
        if _CONFLICT.match(line):
            raise SnapshotError(_conflict_message(name, number))
    in_header = False
    for number, line in enumerate(content_lines, 1):
        if not line.startswith("== "):
            if not headers and line:
                raise SnapshotError(
                    f"{name}:{number}: text before the first header; a file begins with a header such as "
                    "'== torch 2.13: cpu_avx2'"
                )
            lines.append(_ESCAPED.sub("", line) if line.startswith("\\") else line)
            in_header = False
            continue
        header = _HEADER.fullmatch(line)
        if not header:
            raise SnapshotError(
                f"{name}:{number}: unreadable header {line!r}; write it like '== torch 2.13: cpu_avx2 cuda_sm90' "
                "or '== torch 2.13 2.15: cuda_sm80 cuda_sm90 (confirmed: cuda_sm90)'"
            )
        if not in_header:
            texts.add(headers, lines)
            headers, lines = [], []
        in_header = True
        headers.append((number, header))
    texts.add(headers, lines)
    return texts.snapshot()


class _TextCollector:
    """Collects the blocks of each text, in the order of the file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._blocks: dict[TextKey, list[str]] = {}
        self._confirmed: set[TextKey] = set()

    def add(self, headers: Iterable[tuple[int, re.Match[str]]], lines: list[str]) -> None:
        """Adds a block. `headers`: its header lines with their line numbers. `lines`: its content."""
        block = canonical_text("\n".join(lines))[:-1]
        keys: set[TextKey] = set()
        for number, header in headers:
            targets = header["targets"].split()
            for key in [(torch, target) for torch in header["torch"].split() for target in targets]:
                if key in keys or not self._append(key, block):
                    raise SnapshotError(
                        f"{self._name}:{number}: torch {key[0]} has two texts for {key[1]}; keep one of them"
                    )
                keys.add(key)
            for target in (header["confirmed"] or "").split():
                if target not in targets:
                    raise SnapshotError(
                        f"{self._name}:{number}: {target} is confirmed but is not a target of this line"
                    )
                self._confirmed |= {(torch, target) for torch in header["torch"].split()}

    def _append(self, key: TextKey, block: str) -> bool:
        """Appends a block to a text. Returns False if the block begins another text."""
        blocks = self._blocks.setdefault(key, [])
        if blocks and not snapshot_format.can_follow(block):
            return False
        blocks.append(block)
        return True

    def snapshot(self) -> Snapshot:
        """Returns the texts. Raises SnapshotError for a text that has a section, kernel or call twice."""
        texts: dict[tuple[str, ...], str] = {}
        for key, blocks in self._blocks.items():
            if tuple(blocks) in texts:
                continue
            names = list(snapshot_format.part_names(blocks)) if len(blocks) > 1 else []
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise SnapshotError(
                    f"{self._name}: torch {key[0]} has two texts for {key[1]} ({' '.join(filter(None, twice))}); "
                    "keep one of them"
                )
            texts[tuple(blocks)] = "\n\n".join(blocks) + "\n"
        return Snapshot({key: texts[tuple(blocks)] for key, blocks in self._blocks.items()}, self._confirmed)


def _conflict_message(name: str, number: int) -> str:
    path = Path(name)
    function, _, labels = path.stem.partition("-")
    item = f"test_{function}[{labels}-" if labels else f"test_{function}["
    return (
        f"{name}:{number}: unresolved merge conflict. Take one side, then accept the code that is generated now:\n"
        f"  git checkout --ours -- {name} && EXPECTTEST_ACCEPT=1 pytest {_test_file(path)} -k '{item}'"
    )


def _test_file(path: Path) -> Path:
    """Returns the test file of a snapshot: beside the store's folder, or in a folder beside it."""
    owner, name = path.parent.parent.parent, f"test_{path.parent.name}.py"
    files = sorted([*owner.glob(name), *owner.glob(f"*/{name}")])
    return files[0] if files else owner / name


class Store:
    """The snapshots in a folder, `<root>/<case id>.txt`.

    `place`: the folder that belongs to the cases; an overlay is elsewhere. `targets`: their order in headers. Other
    targets follow, sorted by name.
    """

    def __init__(self, root: Path, targets: Sequence[str] = ()) -> None:
        self.root = Path(root)
        self.place = self.root
        self._rank = {target: number for number, target in enumerate(targets)}

    def path(self, case_id: str) -> Path:
        """Returns the file of a case. Raises SnapshotError for a text that is not a case id."""
        if not _CASE.fullmatch(case_id) or case_id.endswith(".txt"):
            raise SnapshotError(f"{case_id!r} is not a case id; write it like 'flip/hflip-224-u8'")
        return self.root / f"{case_id}.txt"

    def cases(self) -> list[str]:
        """Returns the ids of the stored cases, sorted."""
        return self.own_cases()

    def own_cases(self) -> list[str]:
        """Returns the ids of the cases that the folder of this store has, sorted."""
        return sorted(path.relative_to(self.root).with_suffix("").as_posix() for path in self.root.rglob("[!.]*.txt"))

    def versions(self) -> list[str]:
        """Returns the stored torch versions, oldest first. Reads only the headers of the files."""
        versions: set[str] = set()
        for case_id in self.own_cases():
            with contextlib.suppress(OSError):  # `read` reports a file that cannot be read
                for line in _VERSIONS.findall(self.path(case_id).read_bytes()):
                    versions.update(line.decode().split())
        return sorted(versions, key=snapshot_format.version_number)

    def has_target(self, target: str) -> bool:
        """Returns whether anything is stored for a target. Reads only the headers of the files."""
        header = re.compile(rf"^== torch [^:\n]+:[^(\n]* {re.escape(target)}(?: |$)".encode(), re.MULTILINE)
        for case_id in self.own_cases():
            with contextlib.suppress(OSError):  # `read` reports a file that cannot be read
                if header.search(self.path(case_id).read_bytes()):
                    return True
        return False

    def read(self, case_id: str) -> Snapshot | None:
        """Returns the snapshot of a case; None if nothing is stored. Raises SnapshotError for an unreadable file."""
        return self.read_own(case_id)

    def read_own(self, case_id: str) -> Snapshot | None:
        """Returns what the folder of this store has, and not what it is laid over."""
        path = self.path(case_id)
        try:
            content = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"{path}: cannot be read: {error}") from error
        return parse(content, str(path))

    def format(self, snapshot: Snapshot) -> str:
        """Returns the content of the file. Equal snapshots give equal content, whatever the order of their texts."""
        begun: set[TextKey] = set()
        blocks = []
        for keys, content in snapshot_format.shared_blocks(snapshot.texts, self._order):
            blocks.append(self._block(content, keys, snapshot.confirmed - begun))
            begun |= set(keys)
        return "\n".join(blocks)

    def _order(self, key: TextKey) -> tuple[int, str, tuple[int, ...]]:
        torch, target = key
        return self._rank.get(target, len(self._rank)), target, snapshot_format.version_number(torch)

    def _block(self, text: str, keys: list[TextKey], confirmed: Collection[TextKey]) -> str:
        def note(version: str, targets: list[str]) -> str:
            names = [target for target in targets if (version, target) in confirmed]
            return " ".join(targets) + (f" (confirmed: {' '.join(names)})" if names else "")

        headers = [
            f"== torch {' '.join(versions)}: {rest}\n" for versions, rest in snapshot_format.header_lines(keys, note)
        ]
        lines = ["\\" + line if _SPECIAL.match(line) else line for line in text.split("\n")]
        return "".join(headers) + "\n".join(lines)

    def merge(
        self,
        updates: Mapping[str, Mapping[TextKey, str]],
        confirmed: Mapping[str, Collection[TextKey]] | None = None,
    ) -> Counts:
        """Stores texts. `updates`: case id → (torch, target) → text. `confirmed`: the texts that real hardware gave.

        Several processes may merge at the same time. Writes are atomic: a killed process leaves the old or the new
        file. Reads each file back and counts its texts. If a case cannot be stored, stores the others and raises
        SnapshotError with `counts`. Raises InstalledError for a store of an installed package.
        """
        refuse_installed(self.root)
        for case_id, texts in updates.items():
            self.path(case_id)
            for _, target in texts:
                if not re.fullmatch(r"[A-Za-z0-9_.+-]+", target):
                    raise SnapshotError(f"{target!r} is not a target name; write it like 'cuda_sm90'")
        total, errors = Counts(), []
        with atomic_files.lock_folder(self.root, SnapshotError):
            for case_id in sorted(updates):
                counts, error = self._merge_case(case_id, updates[case_id], (confirmed or {}).get(case_id, ()))
                total += counts
                if error:
                    errors.append(str(error))
                if error and isinstance(error.__cause__, OSError):
                    break  # the disk is full or read-only: the other cases would fail too
            lost, problems = self._finish_merge()
            total, errors = total - lost, [*errors, *problems]
        if errors:
            stored = total.new + total.changed
            failure = SnapshotError("\n".join([*errors, f"{stored} new or changed texts of other cases were stored"]))
            failure.counts = total
            raise failure
        return total

    def _finish_merge(self) -> tuple[Counts, list[str]]:
        """Writes what `_write` has collected: nothing here. Returns what could not be stored, and why."""
        return Counts(), []

    def _merge_case(
        self, case_id: str, texts: Mapping[TextKey, str], confirmed: Collection[TextKey]
    ) -> tuple[Counts, SnapshotError | None]:
        try:
            before = self.read(case_id)
            after, counts = (before or Snapshot()).with_texts(texts, confirmed)
            if texts and (before is None or after != before):
                self._write(case_id, after)
        except SnapshotError as error:
            return Counts(), error
        return counts, None

    def _write(self, case_id: str, snapshot: Snapshot) -> None:
        path = self.path(case_id)
        try:
            if snapshot.texts:
                atomic_files.write_atomically(path, self.format(snapshot))
            else:
                path.unlink(missing_ok=True)
        except (OSError, UnicodeEncodeError) as error:
            raise SnapshotError(f"{path}: not stored, the old file is unchanged: {error}") from error
        if (self.read_own(case_id) or Snapshot()) != snapshot:
            raise SnapshotError(
                f"{path}: the content read back differs from the content written; check the disk, then accept again"
            )

    def remove(self, case_ids: Iterable[str]) -> None:
        """Removes the files of cases. Raises SnapshotError if a file cannot be removed."""
        refuse_installed(self.root)
        with atomic_files.lock_folder(self.root, SnapshotError):
            for case_id in case_ids:
                self._write(case_id, Snapshot())
            _, problems = self._finish_merge()
        if problems:
            raise SnapshotError("\n".join(problems))

    def drop(self, torch: str) -> int:
        """Removes all texts of a torch version, and files without other texts. Returns the number of removed texts."""
        refuse_installed(self.root)
        dropped = 0
        with atomic_files.lock_folder(self.root, SnapshotError):
            for case_id in self.own_cases():
                before = self.read_own(case_id) or Snapshot()
                after = before.without_version(torch)
                if after != before:
                    self._write(case_id, after)
                    dropped += len(before.texts) - len(after.texts)
        return dropped
