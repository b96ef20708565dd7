#!/usr/bin/env python3
"""The runs that the repository keeps for the example of a report: one archive each in ci/documentation/example_runs/.

    python ci/documentation/kept_runs.py RUN NAME [--subset FILE]

writes NAME.tar.xz with what a report shows of a run. A folder of a run that is put beside the archives is taken too.

The report of a kept run must not change when someone accepts new code. So the archive also has the snapshots that the
texts of the run differ from, in a folder store/. Paths in it are below /checkout.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("example_runs")
#: Where the checkout was, as the archives say it.
CHECKOUT = "/checkout"
#: The snapshots in an archive, and what the records of their cases say in the place of their folder.
_STORE = "store"

sys.path[:0] = [str(ROOT), str(ROOT / "ci")]

import relocated_runs  # noqa: E402

from conformance.review.review import review_items, stored_text_finder  # noqa: E402
from conformance.storage.runs import ItemRecord, Run  # noqa: E402


def unpack(folder: Path, kept: Path = FOLDER) -> list[Path]:
    """Unpacks the kept runs into a folder, so that their records name this checkout. Returns their folders by name.

    Raises OSError and ValueError for an archive or a run that cannot be read.
    """
    found = {}
    for archive in kept.glob("*.tar.xz"):
        name = archive.name.removesuffix(".tar.xz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder / "archives" / name, filter="data")
        found[name] = folder / "archives" / name
    found |= {file.parent.name: file.parent for file in kept.glob("*/run.json")}
    return [_placed(found[name], folder / name) for name in sorted(found)]


def _placed(run: Path, folder: Path) -> Path:
    def edited(record: dict[str, Any]) -> dict[str, Any]:
        record = relocated_runs.moved(record, made, ROOT)
        return record | ({"store": str(run / _STORE)} if record["store"] == _STORE else {})

    made = Path(json.loads((run / "run.json").read_text(encoding="utf-8"))["root"])
    relocated_runs.copy_run(run, folder, CHECKOUT, edited)
    return folder


def keep(run: Path, archive: Path, is_kept: Callable[[str], bool]) -> int:
    """Writes an archive of the run's items whose case is kept. Returns their number."""
    made = Path(str(Run(run).root))
    items = [item for item in Run(run).items() if is_kept(item.case)]
    differing = review_items(items, stored_text_finder()).changed_items
    cases = {each.item.case for each in differing.values() if _snapshot(each.item).exists()}

    def edited(record: dict[str, Any]) -> dict[str, Any] | None:
        if not is_kept(record["case"]):
            return None
        if record["case"] in cases:
            record["store"] = _STORE
        return json.loads(json.dumps(relocated_runs.moved(record, made, Path(CHECKOUT))).replace(str(made), CHECKOUT))

    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary, "run")
        relocated_runs.copy_run(run, copy, CHECKOUT, edited)
        for path in (copy / "failures").rglob("*.*"):
            text = path.read_bytes().replace(str(made).encode(), CHECKOUT.encode())
            path.write_bytes(text.replace(str(Path.home()).encode(), b"~"))  # Inductor names files of its cache
        for item in items:
            snapshot = Path(_STORE, f"{item.case}.txt")
            if item.case in cases and not (copy / snapshot).exists():
                (copy / snapshot).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(_snapshot(item), copy / snapshot)
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(_packed(copy))
    return len(items)


def _snapshot(item: ItemRecord) -> Path:
    """The file of the item's snapshot. The sweep keeps its own in tables, where there is no such file."""
    return Path(item.store, f"{item.case}.txt")


def _packed(folder: Path) -> bytes:
    """The files of a folder as an archive that is the same whenever, and by whomever, it is packed."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:xz", preset=9) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(entry, file)
    return written.getvalue()


def _matcher(lines: Iterable[str]) -> Callable[[str], bool]:
    patterns = [word for line in lines if (word := line.partition("#")[0].strip())]
    return lambda case: any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("name", help="the name of the archive, such as h100-torch2.11")
    parser.add_argument(
        "--subset", type=Path, default=FOLDER / "cases.txt", help="a file with the ids of the cases to keep"
    )
    options = parser.parse_args()
    if not (options.run / "run.json").is_file():
        parser.error(f"{options.run} is no folder of a run: it has no run.json")
    archive = FOLDER / f"{options.name}.tar.xz"
    number = keep(options.run, archive, _matcher(options.subset.read_text(encoding="utf-8").splitlines()))
    if not number:
        archive.unlink()
        parser.error(f"{options.run} has no case that {options.subset} names")
    print(f"{archive}: {number} items, {archive.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
