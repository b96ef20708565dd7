"""What runs gave over time: a folder with one file of JSON lines for each run, which git merges without a conflict.

docs/formats.md describes the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.report.about import about
from conformance.report.columns import cells_of
from conformance.report.commands import bisect_command
from conformance.report.states import BAD
from conformance.storage.runs import Run, RunError

FORMAT = "conformance history 1"
_SUFFIX = ".jsonl"


@dataclass(frozen=True)
class Entry:
    """A run: its time, torch and options in words, and `commit`: of PyTorch, or the tag of its release; "" if neither.

    `lines`: (operator, target) → state → the cases in it; of a state that is not in states.BAD, their number.
    """

    run: str
    time: str
    torch: str
    options: str
    commit: str
    lines: Mapping[tuple[str, str], Mapping[str, list[str] | int]]

    def is_bad(self, key: tuple[str, str]) -> bool:
        return any(state in BAD for state in self.lines.get(key, {}))


def add(run: Run, folder: Path) -> Path:
    """Writes what a run gave into the folder, and returns the file. The same run again replaces it. Raises RunError."""
    description, said = run.description(), about(run)
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for (case, column), cell in sorted(cells_of([run]).cells.items(), key=lambda each: each[0][0]):
        states = lines.setdefault((case.partition("/")[0], column.target), {})
        if cell.state in BAD:
            states.setdefault(cell.state, []).append(case)
        else:
            states[cell.state] = states.get(cell.state, 0) + 1
    head = {"format": FORMAT, "run": said["run"], "time": description["time"], "torch": said["torch"]}
    head |= {"options": said["options"], "commit": _commit(description)}
    rows = [{"operator": operator, "target": target, "states": states} for (operator, target), states in lines.items()]
    name = f"{re.sub('[^0-9TZ]', '', head['time'])}-{re.sub('[^A-Za-z0-9_.-]', '_', said['run'])}{_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in [head, *rows])
        atomic_files.write_atomically(folder / name, text)
    except OSError as error:
        raise RunError(f"{folder} cannot be written to: {error.strerror}; name another folder") from error
    return folder / name


def _commit(description: Mapping[str, Any]) -> str:
    source = description.get("torch_source", {}).get("commit", "")
    release = re.fullmatch(r"(\d+\.\d+\.\d+)(\+\w+)?", description["torch"])
    return source.removesuffix("-dirty") or (f"v{release[1]}" if release else "")


def read(folder: Path) -> list[Entry]:
    """Returns what `add` wrote, the oldest run first. Raises RunError."""
    files = sorted(folder.glob(f"*{_SUFFIX}"))
    if not files:
        raise RunError(
            f"{folder} has no history: add a run to it, with `python -m conformance history add RUN {folder}`"
        )
    return sorted(map(_read, files), key=lambda each: (each.time, each.run))


def _read(file: Path) -> Entry:
    try:
        head, *rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        kind = head.pop("format")
        lines = {(row["operator"], row["target"]): dict(row["states"]) for row in rows}
        entry = Entry(**head, lines=lines)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file} is no run of a history ({error}): remove it, and add the run again") from error
    if kind != FORMAT:
        raise RunError(f"{file} has the format {kind!r}, and this release reads {FORMAT!r}: add the run again")
    return entry


def timeline(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the page shows: the runs, and a row for each operator and target that needed someone in one of them."""
    keys = sorted({key for entry in entries for key in entry.lines if entry.is_bad(key)})
    runs = [{name: value for name, value in asdict(entry).items() if name != "lines"} for entry in entries]
    return {"runs": runs, "rows": [_row(key, entries) for key in keys]}


def _row(key: tuple[str, str], entries: Sequence[Entry]) -> dict[str, Any]:
    states = [entry.lines.get(key, {}) for entry in entries]
    counts = [{name: each if isinstance(each, int) else len(each) for name, each in found.items()} for found in states]
    return {"operator": key[0], "target": key[1], "runs": counts, "bad": _first_bad(key, entries)}


def _first_bad(key: tuple[str, str], entries: Sequence[Entry]) -> dict[str, Any] | None:
    """The first of the last runs that are bad without a good one between them; None if the last one is good."""
    known = [(number, entry) for number, entry in enumerate(entries) if key in entry.lines]
    bad = list(_last_bad(key, known))
    if not bad:
        return None
    number, first = bad[-1]
    before = next((entry for other, entry in reversed(known) if other < number), None)
    state = next(state for state in BAD if state in first.lines[key])
    cases = first.lines[key][state]
    command = ""
    if before and before.commit and first.commit and before.commit != first.commit and isinstance(cases, list):
        command = bisect_command(cases[0], key[1], state, before.commit, first.commit)
    return {"run": number, "state": state, "cases": cases, "bisect": command}


def _last_bad(key: tuple[str, str], known: Sequence[tuple[int, Entry]]) -> Iterator[tuple[int, Entry]]:
    for number, entry in reversed(known):
        if not entry.is_bad(key):
            return
        yield number, entry
