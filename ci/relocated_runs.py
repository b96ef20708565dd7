"""Copies of runs whose records name the folders of this checkout: a run may have been made at another place.

A record names the folders of its snapshots and known failures, and the file of its case, as absolute paths below the
root of its run. A run from another machine has another root, and a report would find neither.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: The keys of a record that are paths.
PATHS = ("store", "known", "file")


def relocated(run: Path, root: Path, folder: Path) -> Path:
    """Returns the run, or a copy of it in `folder` if it was made below another root than `root`.

    A run without a root in its run.json, and a path that is not below that root, stay as they are. Raises OSError and
    ValueError for a file that cannot be read.
    """
    made = json.loads((run / "run.json").read_text(encoding="utf-8")).get("root")
    if not made or Path(made) == root:
        return run
    copy_run(run, folder, str(root), lambda record: moved(record, Path(made), root))
    return folder


def copy_run(
    run: Path, folder: Path, root: str, edited: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> dict[str, Any]:
    """Copies what a report reads of a run, and returns what its run.json says. `root`: for run.json.

    `edited`: called with each record, returns the one to write; None leaves the item out.
    """
    folder.mkdir(parents=True)
    description = json.loads((run / "run.json").read_text(encoding="utf-8")) | {"root": root}
    _write(folder / "run.json", description)
    left_out = set()
    for file in sorted((run / "items").rglob("*.json")):
        name = file.relative_to(run / "items").with_suffix("").as_posix()
        record = edited(json.loads(file.read_text(encoding="utf-8")))
        if record is None:
            left_out.add(name)
            continue
        _write(folder / file.relative_to(run), record)
        artifacts = Path("failures", name)
        if (run / artifacts).is_dir():
            shutil.copytree(run / artifacts, folder / artifacts, ignore=shutil.ignore_patterns("*.pt"))  # no tensors
    if (run / "selected.json").exists():
        selected = json.loads((run / "selected.json").read_text(encoding="utf-8"))
        _write(folder / "selected.json", {node: name for node, name in selected.items() if name not in left_out})
    return description


def moved(record: dict[str, Any], made: Path, root: Path) -> dict[str, Any]:
    """Returns the record with its paths below `root` instead of below `made`."""
    paths = {key: Path(record.get(key) or "") for key in PATHS}
    return record | {key: str(root / each.relative_to(made)) for key, each in paths.items() if made in each.parents}


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, separators=(",", ":"), sort_keys=True), encoding="utf-8")
