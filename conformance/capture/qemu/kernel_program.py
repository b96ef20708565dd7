"""A kernel as a program for another processor: cross-compiled once, and run by qemu for each call.

The program maps a file with the memory of all tensors that the kernel gets. Tensors that share memory share it there.

Private parts of torch: CppBuilder and CppTorchOptions, which have the flags of kernels.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from conformance.capture.emulation.errors import EmulationError, NotEmulatedError
from conformance.capture.toolchain.cpu_isa import instruction_set
from conformance.devices.cache_folder import cache_folder
from conformance.devices.cross_compiler import TOOLCHAINS, emulation_problem
from conformance.devices.targets import ARCHITECTURES

#: The header that each kernel includes first.
_PREFIX = "torch/csrc/inductor/cpp_prefix.h"
_HERE = Path(__file__).parent
#: Flags for a processor of this machine, which a cross compiler does not know.
_NATIVE = ("-march=native", "-mcpu=native")
#: Instruction set → the flags of an early processor that Inductor chooses it for.
_PROCESSOR = {"neon": ["-mcpu=neoverse-n1"], "sve256": [], "vsx": ["-mcpu=power8"], "zvector": ["-march=z14"]}
#: Instruction set → options of qemu. SVE: the length of vectors in quarters of 512 bits.
_EMULATED = {"sve256": ["-cpu", "max,sve-max-vq=2"]}
#: GCC 12 ends by a signal where it reads SVE's functions from a precompiled header.
_UNCOMPILED_HEADERS = ("sve256",)
#: The alignment of tensors in the file: that of torch's allocator.
_ALIGNMENT = 64
#: The exit status of a program whose kernel threw an exception.
_RAISED = 3


class KernelProgram:
    """A kernel of a wrapper module. `types`: of its arguments, in C++. `seconds_left`: returns how long it may run."""

    def __init__(self, isa: str, types: Sequence[str], source: str, seconds_left: Callable[[], float]) -> None:
        self._emulator, self._big_endian = _emulator(isa), isa == "zvector"
        self._types, self._seconds_left = [each.replace("const ", "") for each in types], seconds_left
        self._program = _compiled(isa, f"{source}\n{_main(self._types)}")

    def __call__(self, *arguments: Any) -> None:
        """Raises RuntimeError with what the kernel throws, as its bindings do; EmulationError if it ends otherwise."""
        import torch

        given = list(zip(self._types, arguments, strict=True))
        if any("*" in kind and not isinstance(value, torch.Tensor) for kind, value in given):
            raise NotEmulatedError("a kernel that gets the address of memory")
        memory = _Memory([value for kind, value in given if "*" in kind], big_endian=self._big_endian)

        def word(kind: str, value: Any) -> str:
            if "*" in kind:
                return str(memory.place(value))
            return repr(float(value)) if kind in ("float", "double") else str(int(value))

        with memory.in_file() as file:
            self._run([file, *(word(kind, value) for kind, value in given)])

    def _run(self, words: Sequence[str]) -> None:
        try:
            ran = subprocess.run(
                [*self._emulator, str(self._program), *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=max(0.001, self._seconds_left()),
                env={**os.environ, "OMP_WAIT_POLICY": "passive"},
            )
        except subprocess.TimeoutExpired as error:
            raise EmulationError(f"a kernel did not finish within {error.timeout:.0f} s under qemu") from None
        if ran.returncode == _RAISED:
            raise RuntimeError(ran.stderr)
        if ran.returncode:
            raise EmulationError(f"a kernel ended with status {ran.returncode} under qemu: {ran.stderr.strip()}")


class _Memory:
    """The memory of tensors in a file: each storage once, with a gap after it."""

    def __init__(self, tensors: Sequence[Any], *, big_endian: bool) -> None:
        self._swapped = {each.untyped_storage().data_ptr(): _width(each) if big_endian else 1 for each in tensors}
        if big_endian and any(_width(each) != self._swapped[each.untyped_storage().data_ptr()] for each in tensors):
            raise NotEmulatedError("memory that a kernel for a big-endian processor gets as two dtypes")
        self._storages = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}
        self._places: dict[int, int] = {}
        self._size = _ALIGNMENT
        for address, storage in self._storages.items():
            self._places[address] = self._size
            self._size += (storage.nbytes() // _ALIGNMENT + 2) * _ALIGNMENT

    def place(self, tensor: Any) -> int:
        start = tensor.untyped_storage().data_ptr()
        return self._places[start] + tensor.data_ptr() - start

    @contextlib.contextmanager
    def in_file(self) -> Iterator[str]:
        """Inside, the file has the memory; what it has at the end is copied back."""
        import torch

        with tempfile.NamedTemporaryFile() as file:
            whole = torch.from_file(file.name, shared=True, size=self._size, dtype=torch.uint8)
            held = {at: torch.empty(0, dtype=torch.uint8).set_(each) for at, each in self._storages.items()}
            parts = {at: whole.narrow(0, self._places[at], each.numel()) for at, each in held.items()}
            for at, part in parts.items():
                part.copy_(_with_swapped_bytes(held[at], self._swapped[at]))
            yield file.name
            for at, part in parts.items():
                held[at].copy_(_with_swapped_bytes(part, self._swapped[at]))


def _width(tensor: Any) -> int:
    """The bytes of one number."""
    return tensor.element_size() // (2 if tensor.is_complex() else 1)


def _with_swapped_bytes(memory: Any, width: int) -> Any:
    """The memory of another byte order. What is left of it after the last whole number is no part of a tensor."""
    swapped = memory.clone()
    whole = memory.numel() // width * width
    swapped[:whole] = memory[:whole].view(-1, width).flip(1).view(-1)
    return swapped


def _main(types: Sequence[str]) -> str:
    values = ", ".join(f"argument<{each}>(words[{place}])" for place, each in enumerate(types, 2))
    return (
        f'#include "{_HERE / "program.h"}"\n'
        f"int main(int, char** words) {{ return run(words[1], [&] {{ kernel({values}); }}); }}\n"
    )


def _emulator(isa: str) -> list[str]:
    if problem := emulation_problem(isa):
        raise NotEmulatedError(problem)
    return [TOOLCHAINS[ARCHITECTURES[isa]].emulator, *_EMULATED.get(isa, [])]


@cache
def _flags(isa: str) -> list[str]:
    """The cross compiler with Inductor's flags for a kernel, and those of the processor."""
    from torch._inductor.cpp_builder import CppBuilder, CppTorchOptions

    compiler = TOOLCHAINS[ARCHITECTURES[isa]].compiler
    options = CppTorchOptions(vec_isa=instruction_set(isa), compiler=compiler, warning_all=False)
    builder = CppBuilder(name="kernel", sources="kernel.cpp", output_dir="", BuildOption=options)
    words = shlex.split(builder.get_command_line())
    kept = [each for each in words[: words.index("-o")] if each not in ("kernel.cpp", "-shared", *_NATIVE)]
    return [*kept, *_PROCESSOR[isa], "-w"]


def _compiled(isa: str, text: str) -> Path:
    """The program of a text. Raises CppCompileError, as Inductor does."""
    command = _flags(isa)
    folder = cache_folder() / "qemu"
    program = folder / _digest(*command, text, *_own_headers())
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        headers = [] if isa in _UNCOMPILED_HEADERS else [f"-I{_precompiled(isa, folder)}"]
        with tempfile.TemporaryDirectory(dir=folder) as work:
            source, made = Path(work, "kernel.cpp"), Path(work, "kernel")
            source.write_text(text, encoding="utf-8")
            _build([*command[:1], *headers, f"-I{_HERE}", *command[1:], "-static", str(source), "-o", str(made)])
            made.replace(program)
    return program


def _precompiled(isa: str, folder: Path) -> Path:
    """A folder of headers whose cpp_prefix.h is precompiled: reading it takes longer than compiling a kernel."""
    import torch

    command = _flags(isa)
    headers = folder / f"headers-{_digest(*command, torch.__version__, *_own_headers())}"
    made = headers / f"{_PREFIX}.gch"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        header = Path(torch.__file__).parent / "include" / _PREFIX
        with tempfile.TemporaryDirectory(dir=folder) as work:
            part = Path(work, "header.gch")
            _build([*command[:1], f"-I{_HERE}", *command[1:], "-x", "c++-header", str(header), "-o", str(part)])
            part.replace(made)
    return headers


def _own_headers() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(_HERE.glob("*.h"))]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _build(command: Sequence[str]) -> None:
    from torch._inductor.exc import CppCompileError

    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise CppCompileError(list(command), built.stderr)
