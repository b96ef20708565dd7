"""The archive that `confirm` writes and `accept` reads: what one machine's device gave for one target.

    manifest.json       versions, and the device as torch reports it
    items.json          a record for each item, without code; its `code` says by SHA-256 which text it gave
    code/<case>.txt     the texts that are not the stored ones
    failures.txt        the messages of failed checks
    README.txt          what the file is

It holds no path, user name or host name; see anonymous.py. An archive comes from a stranger: nothing is unpacked, and
all that it says is checked before anything is stored.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.devices.targets import DEVICES, GPUS
from conformance.errors import ConformanceError
from conformance.normalize.text import canonical_text
from conformance.storage.anonymous import Anonymiser
from conformance.storage.check_results import CheckResult
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import SnapshotError, torch_release

FORMAT = "conformance confirm"
#: Raised by a change of the files' structure.
FORMAT_VERSION = 1
SUFFIX = ".zip"
#: Bytes of all files, unpacked: 20 times a run of the whole suite.
MAX_BYTES = 1 << 30

_README = """\
What a device gave for the cases of the suite `conformance`, written by `python -m conformance confirm`.
Store it with: python -m conformance accept THIS_FILE
The file holds no path, no user name and no host name.
"""
#: What a record keeps. The rest are paths, times, and what only the run's own machine can use.
_KEPT = ("case", "target", "mode", "torch", "facts", "checks", "missed", "binaries", "evidence", "kernels", "notices",
         "seconds", "needs_fp64", "problems")  # fmt: skip
#: What begins a sequence that moves the cursor of a terminal, and the like.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TARGET = re.compile(r"[A-Za-z0-9_.+-]+")


class ArchiveError(ConformanceError, ValueError):
    """A file is no archive of `confirm`, or not one for this checkout. The message says what to do."""


@dataclass(frozen=True)
class Manifest:
    """What the archive says of itself.

    `target`: the row that the device matched, or a local target. `device`: `type`, `capability` and `properties`, as
    torch reports them, and `driver`. `versions`: of torch, triton, python and system. `selected`: how many items the
    run selected.
    """

    target: str
    device: Mapping[str, Any]
    versions: Mapping[str, str]
    selected: int

    @property
    def torch(self) -> str:
        return self.versions["torch"]

    @property
    def describes_gpu(self) -> bool:
        return self.device["type"] in GPUS


@dataclass
class ArchivedItem:
    """An item's record, without its text.

    `sha256`: of the text that the device gave; "" without a text. `compared_with`: SHA-256 of the text that was stored
    for the target when the archive was written; "" if nothing was stored, None if the device matched no row.
    """

    record: ItemRecord
    sha256: str
    compared_with: str | None


@dataclass
class ConfirmArchive:
    """The content of an archive. `code`: case → the text that the device gave, if that is not the stored one."""

    manifest: Manifest
    items: list[ArchivedItem] = field(default_factory=list)
    code: dict[str, str] = field(default_factory=dict)
    failures: str = ""


def sha256(text: str) -> str:
    """Of a canonical text; "" for none."""
    return hashlib.sha256(canonical_text(text).encode()).hexdigest() if text else ""


def write_archive(path: Path, archive: ConfirmArchive, anonymiser: Anonymiser, suite: str) -> list[str]:
    """Writes the archive, without the names that `anonymiser` removes. Returns the cases whose code was left out.

    The file appears when it is complete. Code that names folders of this machine is left out, and not changed.
    `suite`: the version of the suite.
    Raises OSError.
    """
    left_out = [case for case, text in archive.code.items() if anonymiser.names_in_code(text)]
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "suite": suite,
        "target": archive.manifest.target,
        "device": anonymiser.data(dict(archive.manifest.device)),
        "versions": anonymiser.data(dict(archive.manifest.versions)),
        "selected": archive.manifest.selected,
    }
    items = [_item_json(item, anonymiser) for item in archive.items]
    members = {
        "README.txt": _README,
        "manifest.json": json.dumps(manifest, indent=1),
        "items.json": json.dumps(items, indent=0),
        "failures.txt": anonymiser.text(archive.failures),
        **{f"code/{case}.txt": text for case, text in archive.code.items() if case not in left_out},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        atomic_files.replaced_atomically(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as file,
    ):
        for name, text in members.items():
            file.writestr(zipfile.ZipInfo(name), text.encode(), zipfile.ZIP_DEFLATED)
    return left_out


def _item_json(item: ArchivedItem, anonymiser: Anonymiser) -> dict[str, Any]:
    data = {key: value for key, value in item.record.to_json().items() if key in _KEPT}
    names = {key: data.pop(key) for key in ("case", "target", "mode", "torch", "facts")}  # they are no messages
    checks = {check: result | {"detail": anonymiser.text(result["detail"])} for check, result in data["checks"].items()}
    code = {"sha256": item.sha256, "compared_with": item.compared_with}
    return (
        names
        | anonymiser.data({key: value for key, value in data.items() if key != "checks"})
        | {
            "checks": checks,
            "code": code,
        }
    )


def read_archive(path: Path, suite: str) -> ConfirmArchive:
    """Reads and checks an archive. `suite`: the version of the suite.

    Raises ArchiveError for anything but a whole archive of that version.
    """
    try:
        with zipfile.ZipFile(path) as file:
            members = _members(path, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise ArchiveError(
            f"{path} is no archive, or a part of it is missing ({error}): copy it again, or write it again with "
            "`python -m conformance confirm`"
        ) from error
    manifest = _json(path, members, "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArchiveError(f"{path} was not written by `python -m conformance confirm`: its manifest is another one")
    other, version = (_plain(str(manifest.get(key))) for key in ("suite", "format_version"))
    if (other, version) != (suite, str(FORMAT_VERSION)):
        raise ArchiveError(
            f"{path} was written by version {other} of the suite (format {version}), and this is version {suite} "
            f"(format {FORMAT_VERSION}): accept it with that version"
        )
    try:
        return ConfirmArchive(
            _manifest(manifest),
            [_item(each, manifest) for each in _json(path, members, "items.json")],
            {
                name.removeprefix("code/").removesuffix(".txt"): canonical_text(text)
                for name, text in members.items()
                if name.startswith("code/")
            },
            _plain(members.get("failures.txt", "")),
        )
    except (AttributeError, KeyError, TypeError, ValueError, SnapshotError) as error:
        reason = _plain(f"{type(error).__name__}: {error}")
        raise ArchiveError(
            f"{path}: its content is not as `confirm` writes it ({reason}): have it written again"
        ) from error


def _members(path: Path, file: zipfile.ZipFile) -> dict[str, str]:
    """Returns the name and the text of each file. Raises what zipfile raises for a damaged one, and ArchiveError."""
    if sum(each.file_size for each in file.infolist()) > MAX_BYTES:
        raise ArchiveError(f"{path} is larger than {MAX_BYTES >> 20} MiB unpacked: `confirm` writes no such archive")
    if "manifest.json" not in file.namelist():
        raise ArchiveError(f"{path} was not written by `python -m conformance confirm`: it has no manifest.json")
    return {each.filename: file.read(each).decode() for each in file.infolist() if not each.is_dir()}


def _json(path: Path, members: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(members[name])
    except (KeyError, ValueError) as error:
        raise ArchiveError(f"{path}: its {name} cannot be read: have it written again") from error


def _manifest(data: Mapping[str, Any]) -> Manifest:
    device, versions = data["device"], data["versions"]
    if device["type"] not in DEVICES:
        raise ValueError(f"device type {device['type']!r}")
    if not _TARGET.fullmatch(data["target"]):
        raise ValueError(f"target {data['target']!r}")
    torch_release(versions["torch"])
    checked = {
        "type": device["type"],
        "driver": _plain(str(device.get("driver", ""))),
        "capability": [int(part) for part in device["capability"]],
        "properties": {_plain(str(key)): _property(value) for key, value in device["properties"].items()},
    }
    if len(checked["capability"]) != 2:
        raise ValueError(f"capability {device['capability']!r}")
    return Manifest(
        data["target"], checked, {key: _plain(str(each)) for key, each in versions.items()}, int(data["selected"])
    )


def _property(value: Any) -> Any:
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        return value
    if isinstance(value, (bool, int, float)):
        return value
    raise TypeError(f"property {value!r}")


def _item(data: Mapping[str, Any], manifest: Mapping[str, Any]) -> ArchivedItem:
    code = data["code"]
    kept = {key: data[key] for key in _KEPT}
    if kept["target"] != manifest["target"] or kept["torch"] != manifest["versions"]["torch"]:
        raise ValueError(f"an item is for {kept['target']} on torch {kept['torch']}")
    known = {each.name for each in fields(ItemRecord)}
    record = ItemRecord.from_json({key: value for key, value in kept.items() if key in known} | {"store": ""})
    record.checks = {
        check: CheckResult(result.outcome, _plain(result.detail)) for check, result in record.checks.items()
    }
    hashes = (code["sha256"], code["compared_with"] or "")
    if not all(re.fullmatch("([0-9a-f]{64})?", each) for each in hashes) or not isinstance(record.case, str):
        raise ValueError(f"the code of {record.case!r} is {code!r}")
    return ArchivedItem(record, code["sha256"], code["compared_with"])


def _plain(text: str) -> str:
    """Without characters that a terminal obeys."""
    return _CONTROL.sub("?", text)
