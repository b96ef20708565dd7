"""Reads the assembly of a kernel for AMD: resources from its metadata, and its accesses and matrix instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from conformance.capture.offline.cubin import ToolError


@dataclass(frozen=True)
class Usage:
    """Per thread: `registers`, of vectors, and `local`, the bytes of scratch memory."""

    registers: int
    local: int


#: Keys of the metadata at the end of the assembly. vgpr_count includes the accumulation registers.
_KEYS = ("vgpr_count", "private_segment_fixed_size")

#: Loads and stores of global memory, also those by buffer descriptors: `buffer_load_dwordx4`, `global_store_short`.
#: A buffer load with `lds` copies to shared memory.
_ACCESS = re.compile(
    r"^\s*(?:global|buffer|flat)_(?:load|store)_(?:lds_)?"
    r"(?:[us](?=short|byte))?(dwordx[234]|dword|short|byte)(?:_d16(?:_hi)?)?\b",
    re.MULTILINE,
)
_BITS = {"byte": 8, "short": 16, "dword": 32, "dwordx2": 64, "dwordx3": 96, "dwordx4": 128}
_MATRIX = re.compile(r"^\s*v_s?(?:mfma|mfmac|wmma)_", re.MULTILINE)


def resource_usage(assembly: str, name: str) -> Usage:
    """Resources of the kernel `name`. Raises ToolError."""
    found = dict(re.findall(r"^\s*\.(\w+):\s+(\d+)\s*$", assembly, re.MULTILINE))
    missing = [key for key in _KEYS if key not in found]
    if missing:
        raise ToolError(f"the assembly of {name} has no metadata .{missing[0]}")
    return Usage(*(int(found[key]) for key in _KEYS))


def widest_access(assembly: str) -> int:
    """Bits of the widest load or store of global memory by one thread; 0 without any."""
    return max((_BITS[kind] for kind in _ACCESS.findall(assembly)), default=0)


def matrix_instructions(assembly: str) -> int:
    """The number of instructions of the matrix cores."""
    return len(_MATRIX.findall(assembly))
