"""Reads compiled kernels: resources and instructions of a cubin, accesses in PTX. Triton's wheel has the tools."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import ConformanceError


class ToolError(ConformanceError, RuntimeError):
    """A tool of Triton's wheel is missing, fails, or writes output that cannot be read."""


@dataclass(frozen=True)
class Usage:
    """Per thread: `registers`, and `local`, the bytes of local memory. (The launch requests shared memory.)"""

    registers: int
    local: int


def resource_usage(binary: bytes, name: str) -> Usage:
    """Resources of the kernel `name` in a cubin. Raises ToolError."""
    output = _run("cuobjdump", ["-res-usage"], binary)
    match = re.search(rf"Function {re.escape(name)}:\s*(.*)", output)
    numbers = dict(re.findall(r"(\w+):(\d+)", match[1])) if match else {}
    missing = [key for key in ("REG", "STACK", "LOCAL") if key not in numbers]
    if missing:
        raise ToolError(f"cuobjdump -res-usage printed no {missing[0]} for the kernel {name}:\n{output}")
    return Usage(int(numbers["REG"]), int(numbers["STACK"]) + int(numbers["LOCAL"]))


def sass(binary: bytes) -> str:
    """The disassembled instructions of a cubin. Raises ToolError."""
    return _run("nvdisasm", ["-c"], binary)


#: Loads and stores: `ld.global.L1::evict_first.v4.b32`, `st.global.v2.f32`.
_ACCESS = re.compile(r"\b(?:ld|st)(?:\.[a-z_]+)*?\.global(?:\.[\w:]+?)*?(?:\.v(\d))?\.[bsuf](\d+)\b")
#: Asynchronous copies from global to shared memory.
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global[^;]*?\], *\[[^\]]*\], *(0x[0-9a-f]+|\d+)")
_TENSOR = re.compile(r"^[^/\n]*\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)\b", re.MULTILINE)


def widest_access(ptx: str) -> int:
    """Bits of the widest load or store of global memory by one thread in PTX; 0 without any."""
    bits = [int(lanes or 1) * int(width) for lanes, width in _ACCESS.findall(ptx)]
    bits += [8 * int(size, 0) for size in _COPY.findall(ptx)]
    return max(bits, default=0)


def tensor_cores(ptx: str) -> int:
    """The number of tensor-core instructions in PTX."""
    return len(_TENSOR.findall(ptx))


def spirv_words(binary: bytes) -> str:
    """SPIR-V as 32-bit words in hexadecimal, eight a line: Triton's wheel has no disassembler."""
    words = [binary[at : at + 4][::-1].hex() for at in range(0, len(binary), 4)]
    return "\n".join(" ".join(words[at : at + 8]) for at in range(0, len(words), 8))


@functools.cache
def _tool(name: str) -> Path:
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise ToolError(f"Triton {triton.__version__} has no {name} ({path}): install the standard triton wheel")
    return path


def _run(tool: str, options: list[str], binary: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        done = subprocess.run([_tool(tool), *options, file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(f"{tool} ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
