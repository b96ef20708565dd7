"""Reads which elements each thread combines from Triton's ttgir."""

from __future__ import annotations

import re

#: `}) : (tensor<1x512xf32, #blocked>` ends a reduction or a scan; its first operand has the layout.
_OPERATION = re.compile(
    r'"tt\.(?:reduce|scan)"\(.*?<\{axis = (\d+).*?\}\) : \(tensor<([\dx]+)x\w+, (.+?)>[,)]', re.DOTALL
)
_BLOCKED = re.compile(r"^(#\w+) = #ttg\.blocked<\{(.*)\}>", re.MULTILINE)
_PARTS = ("sizePerThread", "threadsPerWarp", "warpsPerCTA")


def combined(text: str) -> str:
    """How each reduction and scan is divided along its axis, each once: `512: 4 x 32 x 2` are 512 elements, of which a
    thread has 4 in a row, in 32 threads of a warp and 2 warps. The layout's name where it is no blocked layout.
    """
    layouts = {name: _parts(found) for name, found in _BLOCKED.findall(text)}
    found = []
    for axis, sizes, layout in _OPERATION.findall(text):
        parts = layouts.get(layout)
        divided = " x ".join(part[int(axis)] for part in parts) if parts else layout
        found.append(f"{sizes.split('x')[int(axis)]}: {divided}")
    return ", ".join(dict.fromkeys(found))


def _parts(layout: str) -> list[list[str]]:
    """The numbers of each of `_PARTS`, a number for each dimension."""
    return [re.findall(r"\d+", layout.partition(f"{name} = [")[2].partition("]")[0]) for name in _PARTS]
