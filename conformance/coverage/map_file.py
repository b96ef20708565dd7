"""The file of a coverage map: one line of JSON and the sets of items as bits, compressed by xz. docs/formats.md has it.

A set of items is written once, however many lines share it.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from conformance.atomic_files import replaced_atomically
from conformance.coverage.coverage_map import (
    CoverageError,
    CoverageMap,
    MappedFile,
    MappedFunction,
    numbers_of,
    ranges,
)

#: The folder of the maps that `conformance-suite` brings.
PACKAGED = Path(__file__).parents[1] / "coverage_maps"
FORMAT = "conformance coverage"
#: Rises when an older reader would misread the file.
VERSION = 1
_SUFFIX = ".coverage.xz"


def file_name(torch: str) -> str:
    """The name of the file with the map of a version of torch: `torch-2.13.coverage.xz`."""
    return f"torch-{'.'.join(torch.split('+', maxsplit=1)[0].split('.')[:2])}{_SUFFIX}"


def write(path: Path, written: CoverageMap) -> int:
    """Writes a map and returns the size of its file in bytes. Raises CoverageError if it cannot be written."""
    content = encode(written)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_atomically(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise CoverageError(
            f"{path} cannot be written: {error.strerror or error}; name another file with -o"
        ) from error
    return len(content)


def encode(written: CoverageMap) -> bytes:
    sets: dict[int, int] = {}
    files = {}
    for path, file in sorted(written.files.items()):
        files[path] = {
            "blob": file.blob,
            "functions": {each.name: [each.first, each.last] for each in file.functions},
            "once": ranges(sorted(file.once)),
            "lines": _numbered(file.lines, sets),
            "branches": _numbered(file.branches, sets),
            "branches_once": ranges(sorted(file.branches_once)),
        }
    cases = {case: number for number, case in enumerate(written.cases)}
    targets = written.targets
    header = {
        "format": FORMAT,
        "version": VERSION,
        "torch": written.torch,
        "source": written.source,
        "targets": targets,
        "cases": list(cases),
        "items": [[cases[case], targets.index(target)] for case, target in written.items],
        "files": files,
        "sets": len(sets),
    }
    width = _width(len(written.items))
    packed = b"".join(each.to_bytes(width, "little") for each in sets)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return lzma.compress(text + b"\n" + packed, preset=6)


def _numbered(executing: dict[int, int], sets: dict[int, int]) -> list[list[Any]]:
    """The number of a set → the lines or branches with this set. `sets`: set → its number; new sets are added."""
    found: dict[int, list[int]] = {}
    for number in sorted(executing):
        found.setdefault(sets.setdefault(executing[number], len(sets)), []).append(number)
    return [[number, ranges(each)] for number, each in found.items()]


def read(path: Path) -> CoverageMap:
    """Raises CoverageError, which says how to make a map."""
    again = "make it again: python -m conformance coverage make"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CoverageError(f"the coverage map {path} cannot be read: {error.strerror or error}") from error
    try:
        text, _, packed = lzma.decompress(content).partition(b"\n")
        header = json.loads(text)
    except (lzma.LZMAError, ValueError) as error:
        raise CoverageError(f"{path} is no coverage map, or only a part of one; {again}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise CoverageError(f"{path} is no coverage map; {again}")
    if header["version"] != VERSION:
        raise CoverageError(
            f"{path} has version {header['version']} of the format, and this conformance reads {VERSION}; {again}"
        )
    return _decoded(header, packed, path)


def _decoded(header: dict[str, Any], packed: bytes, path: Path) -> CoverageMap:
    width = _width(len(header["items"]))
    if len(packed) != width * header["sets"]:
        raise CoverageError(
            f"{path} is only a part of a coverage map; make it again: python -m conformance coverage make"
        )
    sets = [int.from_bytes(packed[place : place + width], "little") for place in range(0, len(packed), width)]
    items = [(header["cases"][case], header["targets"][target]) for case, target in header["items"]]
    result = CoverageMap(header["torch"], header["source"], items)
    for name, data in header["files"].items():
        functions = [MappedFunction(each, first, last) for each, (first, last) in data["functions"].items()]
        lines, branches = (
            {each: sets[number] for number, text in data.get(key, ()) for each in numbers_of(text)}
            for key in ("lines", "branches")
        )
        once, branches_once = (frozenset(numbers_of(data.get(key, ""))) for key in ("once", "branches_once"))
        result.files[name] = MappedFile(data["blob"], functions, lines, once, branches, branches_once)
    return result


def _width(items: int) -> int:
    return max(1, (items + 7) // 8)
