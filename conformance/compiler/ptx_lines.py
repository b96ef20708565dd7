"""The instructions of a Triton kernel's PTX, each with the line of the kernel that it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from conformance.capture.offline.compiler import Kernel, KernelError, StageError, stage_texts

_DEBUG = re.compile(r"\s*\.(section|file)\b|\s*//|\$L__\w*(tmp|func|info|cu_|pubnames|debug)\w*:")


def ptx_lines(kernel: Kernel) -> Iterator[tuple[str, int]]:
    """(line, number of the kernel's line) of the first configuration; the number is 0 without one.

    Triton says for an instruction of a helper where the kernel calls it. A kernel that does not compile gives a line
    that says why.
    """
    try:
        configuration, text = (texts := stage_texts(kernel, "ptx"))[0]
    except (KernelError, StageError) as error:
        yield from ((f"// {line}", 0) for line in str(error).splitlines())
        return
    more = f", the first of {len(texts)} configurations" if len(texts) > 1 else ""
    yield f"// {kernel.name}: {configuration}{more}", 0
    of_kernel, number = re.compile(rf"\b{re.escape(kernel.name)}\.(?:\w+\.)*py:(\d+):"), 0
    for line in text.partition("\n\t.section")[0].splitlines():
        if line.lstrip().startswith(".loc"):
            found = of_kernel.findall(line)
            number = int(found[-1]) if found else 0
        elif line.strip() and not _DEBUG.match(line):
            yield line.rstrip(), number if line.rstrip().endswith(";") and not line.lstrip().startswith(".") else 0
