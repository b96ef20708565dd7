"""The store of snapshots: one text file a case, each distinct text once, under a line for each torch version.

    == torch 2.13: cpu_avx2 cpu_avx512
    == torch 2.15: cpu_avx2
    kernels     1: flip
    …

    == torch 2.13: cuda_sm80 cuda_sm90 cuda_sm100 (confirmed: cuda_sm90)
    …

`confirmed` names the targets whose real hardware gave this text. A line of a text that looks like a header, or like
git's conflict markers, is stored with a backslash before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import files

_HEADER = re.compile(
    r"== torch (?P<torch>\d+\.\d+): (?P<targets>\S+(?: [^\s(]\S*)*)(?: \(confirmed: (?P<confirmed>[^()]+)\))?"
)
_SPECIAL = re.compile(r"(\\*)(== |<{7}|={7}|>{7}|\|{7})")
_CONFLICT = re.compile(r"<{7}( |$)|={7}$|>{7}( |$)|\|{7}( |$)")
_CASE = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*(/[A-Za-z0-9_+][A-Za-z0-9_.+-]*)*")

Key = tuple[str, str]  # (torch "2.13", target "cuda_sm90")


class SnapshotError(Exception):
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
        return sorted({torch for torch, _ in self.texts}, key=_number)

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


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def canonical(text: str) -> str:
    """As a text is stored: no blanks at the ends of lines, no empty lines around it, one newline at its end."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).strip("\n") + "\n"


def parse(content: str, name: str) -> Snapshot:
    """The content of a file. `name`: the file's, for messages. Raises SnapshotError, naming the line."""
    snapshot = Snapshot()
    headers: list[re.Match[str]] = []
    lines: list[str] = []
    content_lines = content.split("\n")
    for number, line in enumerate(content_lines, 1):
        if _CONFLICT.match(line):
            raise SnapshotError(_conflict_message(name, number))
    in_header = False
    for number, line in enumerate(content_lines, 1):
        if not line.startswith("== "):
            if not headers and line:
                raise SnapshotError(f"{name}:{number}: text before the first header, such as '== torch 2.13: cpu_avx2'")
            lines.append(re.sub(r"^\\(?=\\*(== |<{7}|={7}|>{7}|\|{7}))", "", line))
            in_header = False
            continue
        header = _HEADER.fullmatch(line)
        if not header:
            raise SnapshotError(
                f"{name}:{number}: unreadable header {line!r}; right would be '== torch 2.13: cpu_avx2 cuda_sm90' "
                "or '== torch 2.13: cuda_sm80 cuda_sm90 (confirmed: cuda_sm90)'"
            )
        if not in_header:
            _add(snapshot, headers, lines)
            headers, lines = [], []
        in_header = True
        headers.append(header)
        _check_header(header, snapshot, headers[:-1], f"{name}:{number}")
    _add(snapshot, headers, lines)
    return snapshot


def _check_header(header: re.Match[str], snapshot: Snapshot, others: Iterable[re.Match[str]], where: str) -> None:
    targets = header["targets"].split()
    taken = {target for other in others if other["torch"] == header["torch"] for target in other["targets"].split()}
    for target in targets:
        if (header["torch"], target) in snapshot.texts or target in taken or targets.count(target) > 1:
            raise SnapshotError(f"{where}: torch {header['torch']} has two texts for {target}; keep one of them")
    for target in (header["confirmed"] or "").split():
        if target not in targets:
            raise SnapshotError(f"{where}: {target} is confirmed but not among the targets of its line")


def _add(snapshot: Snapshot, headers: Iterable[re.Match[str]], lines: list[str]) -> None:
    for header in headers:
        for target in header["targets"].split():
            snapshot.texts[header["torch"], target] = canonical("\n".join(lines))
        snapshot.confirmed |= {(header["torch"], target) for target in (header["confirmed"] or "").split()}


def _conflict_message(name: str, number: int) -> str:
    path = Path(name)
    operator, case = path.parent.name, path.stem
    return (
        f"{name}:{number}: unresolved merge conflict. Take one side, then accept what is generated now:\n"
        f"  git checkout --ours -- {name} && EXPECTTEST_ACCEPT=1 pytest conformance/ops/test_{operator}.py -k {case}"
    )


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
        blocks: dict[str, list[Key]] = {}
        for key in sorted(snapshot.texts, key=self._order):
            blocks.setdefault(snapshot.texts[key], []).append(key)
        return "\n".join(self._block(text, keys, snapshot.confirmed) for text, keys in blocks.items())

    def _order(self, key: Key) -> tuple:
        torch, target = key
        return self._rank.get(target, len(self._rank)), target, _number(torch)

    def _block(self, text: str, keys: list[Key], confirmed: Collection[Key]) -> str:
        headers = []
        for version in sorted({torch for torch, _ in keys}, key=_number):
            targets = [target for torch, target in keys if torch == version]
            sure = [target for target in targets if (version, target) in confirmed]
            note = f" (confirmed: {' '.join(sure)})" if sure else ""
            headers.append(f"== torch {version}: {' '.join(targets)}{note}\n")
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
        with files.locked(self.root, SnapshotError):
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
                files.replace(path, self.format(snapshot))
            else:
                path.unlink(missing_ok=True)
        except (OSError, UnicodeEncodeError) as error:
            raise SnapshotError(f"{path}: not stored, the old file is as it was: {error}") from error
        if (self.read(case_id) or Snapshot()) != snapshot:
            raise SnapshotError(f"{path}: what was read back is not what was stored; check the disk, then merge again")

    def drop(self, torch: str) -> int:
        """Removes all texts of a torch version, and files that hold nothing else. Returns how many texts went."""
        dropped = 0
        with files.locked(self.root, SnapshotError):
            for case_id in self.cases():
                before = self.read(case_id) or Snapshot()
                after = before.without(torch)
                if after != before:
                    self._write(case_id, after)
                    dropped += len(before.texts) - len(after.texts)
        return dropped
