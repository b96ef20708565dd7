"""The instructions of C++ kernels, each with the line of the kernel that it comes from.

The compiler that Inductor uses compiles all kernels in one file, with Inductor's own flags and without linking; objdump
says from which line each instruction is inlined. Nothing runs, so the processor need not have the instruction set.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance.capture.toolchain.cpu_isa import instruction_set
from conformance.errors import ConformanceError

_INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
_KERNEL = re.compile(r'(extern "C"\s+void\s+)kernel\(')
#: objdump's lines: the name of a function, a place in the sources, an instruction.
_FUNCTION, _PLACE = re.compile(r"<([\w.]+)>:$"), re.compile(r"(\w+):(\d+)(?: |$)")
_INSTRUCTION = re.compile(r" *([0-9a-f]+):\t(.*?)(?: +#.*| <kernel_\d+[+>].*)?$")
#: A kernel, or the part of it that its threads run. Not the part that raises an error.
_KERNELS = re.compile(r"kernel_(\d+)(?:\._omp_fn\.\d+)?")


class AssemblyError(ConformanceError, ValueError):
    """The kernels cannot be compiled here, or their instructions cannot be read. The message says why."""


def assembly(kernels: Sequence[str], isa: str) -> list[list[tuple[str, int]]]:
    """Of each kernel, (instruction, number of the line of its text that it comes from); 0 if it comes from none.

    Raises AssemblyError.
    """
    from torch._inductor.cpp_builder import CppBuilder, CppTorchOptions

    if shutil.which("objdump") is None:
        raise AssemblyError("objdump is not installed: install binutils")
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernels.cpp"), Path(folder, "kernels.o")
        source.write_text(_source(kernels), encoding="utf-8")
        options = CppTorchOptions(vec_isa=instruction_set(isa))
        builder = CppBuilder(name="kernels", sources=str(source), output_dir=folder, BuildOption=options)
        words = shlex.split(builder.get_command_line())
        flags = [word for word in words[: words.index("-o")] if word != "-shared"]
        _output([*flags, "-w", "-c", "-o", str(binary)])
        text = _output(["objdump", "-d", "-l", "--inlines", "--no-show-raw-insn", str(binary)])
    found: list[list[tuple[str, int]]] = [[] for _ in kernels]
    for number, instruction, line in _instructions(text):
        if number < len(found):
            found[number].append((instruction, line))
    return found


def _source(kernels: Sequence[str]) -> str:
    """One file with all kernels: each in a namespace, with a name of its own as its function and as its file."""
    includes = dict.fromkeys(line for text in kernels for line in _INCLUDE.findall(text))
    parts = ["\n".join(includes)]
    for number, text in enumerate(kernels):
        body = _KERNEL.sub(rf"\1kernel_{number}(", _INCLUDE.sub("", text))
        parts.append(f'namespace of_kernel_{number} {{\n#line 1 "kernel_{number}"\n{body}\n}}\n')
    return "\n".join(parts)


def _output(command: Sequence[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = next((line for line in ran.stderr.splitlines() if "error" in line), ran.stderr.strip())
        raise AssemblyError(f"{Path(command[0]).name} ended with status {ran.returncode}: {said}")
    return ran.stdout


def _instructions(text: str) -> Iterator[tuple[int, str, int]]:
    """(number of the kernel, instruction, line of the kernel's text) of each instruction of a kernel."""
    kernel: re.Match[str] | None = None
    line, is_new = 0, True
    for each in text.splitlines():
        if function := _FUNCTION.search(each):
            kernel = _KERNELS.fullmatch(function[1])
        elif found := _INSTRUCTION.match(each):
            is_new = True
            if kernel:
                yield int(kernel[1]), f"{found[1]:>4}  {found[2]}", line
        elif each and not each.endswith("():"):
            line, is_new = (0 if is_new else line), False
            if kernel and (place := _PLACE.search(each)) and place[1] == f"kernel_{kernel[1]}":
                line = int(place[2])
