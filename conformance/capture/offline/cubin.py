"""What a compiled kernel says of itself: a cubin's resources and instructions, read with what Triton's wheel brings."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import ConformanceError


class ToolError(ConformanceError, RuntimeError):
    """A tool of Triton's wheel that is missing, or whose answer cannot be read."""


@dataclass(frozen=True)
class Usage:
    """`registers`, `local` (bytes of local memory): a thread. Shared memory is asked for at the launch."""

    registers: int
    local: int


def usage(binary: bytes, name: str) -> Usage:
    """Of the kernel `name` in a cubin. Raises ToolError."""
    said = _run("cuobjdump", ["-res-usage"], binary)
    found = re.search(rf"Function {re.escape(name)}:\s*(.*)", said)
    numbers = dict(re.findall(r"(\w+):(\d+)", found[1])) if found else {}
    missing = [key for key in ("REG", "STACK", "LOCAL") if key not in numbers]
    if missing:
        raise ToolError(f"cuobjdump -res-usage does not say {missing[0]} of {name}:\n{said}")
    return Usage(int(numbers["REG"]), int(numbers["STACK"]) + int(numbers["LOCAL"]))


def sass(binary: bytes) -> str:
    """The instructions, disassembled. Raises ToolError."""
    return _run("nvdisasm", ["-c"], binary)


#: `ld.global.L1::evict_first.v4.b32`, `st.global.v2.f32`, and asynchronous copies from global to shared memory.
_ACCESS = re.compile(r"\b(?:ld|st)(?:\.[a-z_]+)*?\.global(?:\.[\w:]+?)*?(?:\.v(\d))?\.[bsuf](\d+)\b")
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global[^;]*?\], *\[[^\]]*\], *(0x[0-9a-f]+|\d+)")
_TENSOR = re.compile(r"^[^/\n]*\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)\b", re.MULTILINE)


def widest_access(ptx: str) -> int:
    """Bits of the widest load or store of global memory that one thread does at once; 0 without any."""
    bits = [int(lanes or 1) * int(width) for lanes, width in _ACCESS.findall(ptx)]
    bits += [8 * int(size, 0) for size in _COPY.findall(ptx)]
    return max(bits, default=0)


def tensor_cores(ptx: str) -> int:
    """How many instructions for tensor cores there are."""
    return len(_TENSOR.findall(ptx))


def spirv(binary: bytes) -> str:
    """SPIR-V is shown in words of 32 bits, eight a line: the wheel brings no disassembler."""
    words = [binary[at : at + 4][::-1].hex() for at in range(0, len(binary), 4)]
    return "\n".join(" ".join(words[at : at + 8]) for at in range(0, len(words), 8))


@functools.cache
def _tool(name: str) -> Path:
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise ToolError(f"Triton {triton.__version__} brings no {name} ({path}): install the stock wheel of triton")
    return path


def _run(tool: str, options: list[str], binary: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        done = subprocess.run([_tool(tool), *options, file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(f"{tool} ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
