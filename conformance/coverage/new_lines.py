"""New lines: those that a compile executes and no case of the package does."""

from __future__ import annotations

import functools

from conformance.coverage import map_file
from conformance.coverage.recording import Executed
from conformance.devices.environment import torch_build
from conformance.sources.torch_source import blob_id

#: Files below torch/ that build and call what was generated. The map is made without that.
_BUILDING = (
    "_inductor/async_compile.py",
    "_inductor/codecache.py",
    "_inductor/compile_fx.py",
    "_inductor/cpp_builder.py",
    "_inductor/cpu_vec_isa.py",
    "_inductor/output_code.py",
    "_inductor/utils.py",
)


def new_lines(executed: Executed) -> list[str]:
    """Each as `_inductor/ir.py:12`, sorted. None without a map for this torch: all of its lines would be new."""
    known = _known()
    return [
        f"{path}:{number}"
        for path in sorted(executed.lines.keys() & known.keys())
        if path not in _BUILDING
        for number in sorted(executed.lines[path] - known[path])
    ]


@functools.cache
def _known() -> dict[str, frozenset[int]]:
    """The lines of the map for the installed torch, of files that are the same. Empty without such a map."""
    build = torch_build()
    place = map_file.PACKAGED / map_file.file_name(build.version)
    lines: dict[str, frozenset[int]] = {}
    for path, file in map_file.read(place).files.items() if place.exists() else ():
        here = build.folder / path
        if here.exists() and blob_id(here.read_bytes()) == file.blob:
            lines[path] = file.once | file.lines.keys()
    return lines


def read_known() -> None:
    """Reads the map, once in a process and its forks: it takes a second."""
    _known()
