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

from conformance.capture.toolchain.cpu_isa import instruction_set, is_of_this_architecture
from conformance.errors import ConformanceError

_INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
_KERNEL = re.compile(r'(extern "C"\s+void\s+)kernel\(')
#: objdump's lines: the name of a function, a place in the sources, an instruction.
_FUNCTION, _PLACE = re.compile(r"<([\w.]+)>:$"), re.compile(r"/kernels\.cpp:(\d+)(?: |$)")
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
    from torch._inductor.exc import InvalidCxxCompiler

    if not is_of_this_architecture(isa):
        raise AssemblyError(f"the compiler of this machine makes no code for {isa}")
    if shutil.which("objdump") is None:
        raise AssemblyError("objdump is not installed: install binutils")
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernels.cpp"), Path(folder, "kernels.o")
        text, before = _source(kernels)
        source.write_text(text, encoding="utf-8")
        try:
            options = CppTorchOptions(vec_isa=instruction_set(isa))
        except InvalidCxxCompiler:
            raise AssemblyError("no C++ compiler is installed") from None
        builder = CppBuilder(name="kernels", sources=str(source), output_dir=folder, BuildOption=options)
        words = shlex.split(builder.get_command_line())
        flags = [word for word in words[1 : words.index("-o")] if word != "-shared"]
        lines = "-g1"  # Inductor of torch 2.11 asks for no lines; they change no instruction
        _output([words[0], lines, *flags, "-w", "-c", "-o", str(binary)])
        dump = _output(["objdump", "-d", "-l", "--inlines", "--no-show-raw-insn", str(binary)])
    found: list[list[tuple[str, int]]] = [[] for _ in kernels]
    for number, instruction, line in _instructions(dump):
        found[number].append((instruction, line and line - before[number]))
    return found


def _source(kernels: Sequence[str]) -> tuple[str, list[int]]:
    """One file with all kernels, each in a namespace and with a name of its own; the lines that come before each."""
    lines = list(dict.fromkeys(line for text in kernels for line in _INCLUDE.findall(text)))
    before = []
    for number, text in enumerate(kernels):
        lines.append(f"namespace of_kernel_{number} {{")
        before.append(len(lines))
        lines += [*_KERNEL.sub(rf"\1kernel_{number}(", _INCLUDE.sub("", text)).split("\n"), "}"]
    return "\n".join(lines) + "\n", before


def _output(command: Sequence[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = next((line for line in ran.stderr.splitlines() if "error" in line), ran.stderr.strip())
        raise AssemblyError(f"{Path(command[0]).name} ended with status {ran.returncode}: {said}")
    return ran.stdout


def _instructions(text: str) -> Iterator[tuple[int, str, int]]:
    """(number of the kernel, instruction, line of the file) of each instruction of a kernel."""
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
            if place := _PLACE.search(each):
                line = int(place[1])
