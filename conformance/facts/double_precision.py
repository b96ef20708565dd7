"""Where generated code needs double precision. Some GPUs, such as Intel's Arc A series, do not calculate in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from conformance.capture.model import Capture
from conformance.facts.model import Fact, ObservedCapture

#: A kernel's definition: its name and its source.
_KERNEL = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)'''", re.DOTALL)
#: An argument of a kernel in its signature: its name and type.
_ARGUMENT = re.compile(r"'(\w+)': '\*?fp64'")
#: An input in the comment with the graph, such as `%arg0_1 : Tensor "f64[20][1]xpu:0" = PlaceHolder[…]`.
_INPUT = re.compile(r'%(\w+) : Tensor "(f64|c128)\[[^"]*" = PlaceHolder')
_DTYPE = re.compile(r"torch\.(float64|complex128)\b")


def fp64(observed: ObservedCapture) -> Fact | None:
    """The number of reasons why the code needs double precision, and the reasons. None for a CPU capture."""
    if not observed.on_gpu:
        return None
    found = reasons(observed.capture)
    return Fact(len(found), (f"needed: {'; '.join(found)}" if found else "not needed",))


def reasons(capture: Capture) -> list[str]:
    """Why the code of a capture for a GPU needs double precision, in the order of the code."""
    return list(dict.fromkeys(reason for module in capture.modules for reason in _reasons(module.code)))


def _reasons(code: str) -> Iterator[str]:
    for name, dtype in dict.fromkeys(_INPUT.findall(code)):
        yield f"{name} is {dtype}"
    for name, source in _KERNEL.findall(code):
        arguments = list(dict.fromkeys(_ARGUMENT.findall(source)))
        if arguments:
            yield f"{name} has fp64 arguments {', '.join(arguments)}"
        elif "tl.float64" in source:
            yield f"{name} calculates in float64"
    outside = _KERNEL.sub("", re.sub("^ *#.*$", "", code, flags=re.MULTILINE))
    for dtype in sorted(set(_DTYPE.findall(outside))):
        yield f"a call makes a tensor of {dtype}"
