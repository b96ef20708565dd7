"""Builds Metal source as C++ against the shim, and launches its kernels on memory of the host."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance import EmulationError, NotEmulatedError
from conformance_metal.kernel_source import Kernel, as_cpp

_INCLUDE = Path(__file__).with_name("include")
#: Threads of a group that a GPU of Apple runs at most.
_MOST_THREADS = 1024
_OPTIONS = (
    "-std=gnu++17", "-O1", "-fPIC", "-fsingle-precision-constant", "-fwrapv", "-ffp-contract=off", "-fsigned-char",
    "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-D__METAL__", "-D__METAL_VERSION__=310", "-w",
)  # fmt: skip
#: Bytes of c10::metal::ErrorMessages, and more: torch's header has 30 messages.
_ERROR_BYTES = 1 << 15


class Library:
    """What torch.mps.compile_shader returns: its attributes are the kernels of the source.

    Raises SyntaxError, as torch does, for a source that does not build, and NotEmulatedError.
    """

    def __init__(self, source: str) -> None:
        cpp, kernels = as_cpp(source)
        self._library = ctypes.CDLL(str(_built(cpp)))
        self._kernels = {kernel.name: kernel for kernel in kernels}
        self._launches: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._kernels:
            raise AttributeError(name)
        return functools.partial(self._launch, self._kernels[name])

    def _launch(
        self,
        kernel: Kernel,
        *values: Any,
        threads: int | Sequence[int] | None = None,
        group_size: int | Sequence[int] | None = None,
        error_buf_idx: int | None = None,
        **others: Any,
    ) -> None:
        """Raises EmulationError, and RuntimeError for an error that the kernel reports itself."""
        if others:
            raise NotEmulatedError(f"{kernel.name} is launched with {min(others)}")
        given = list(values)
        errors = ctypes.create_string_buffer(_ERROR_BYTES)
        if error_buf_idx is not None:
            given.insert(error_buf_idx, errors)
        if len(given) != len(kernel.arguments):
            raise EmulationError(f"{kernel.name} gets {len(given)} arguments and has {len(kernel.arguments)}")
        kept: list[Any] = []
        arguments = (_Argument * len(given))(*(_argument(each, kept) for each in given))
        grid, size = _extent(given[0].numel() if threads is None else threads), _extent(group_size or (_MOST_THREADS,))
        most = kernel.most or _MOST_THREADS
        if group_size is not None and math.prod(size) > min(most, _MOST_THREADS):
            raise EmulationError(f"{kernel.name} has groups of {math.prod(size)} threads; the device allows {most}")
        count = self._launches[kernel.name] = self._launches.get(kernel.name, -1) + 1
        fault = _Fault()
        launch = getattr(self._library, f"launch_{kernel.name}")
        launch(arguments, _three(grid), _three(size), ctypes.c_bool(count % 2 == 1), ctypes.byref(fault))
        if reported := _reported(errors):
            raise RuntimeError(reported)
        if fault.kind:
            raise EmulationError(f"{kernel.name} {fault}")


class _Argument(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("first", ctypes.c_long), ("end", ctypes.c_long)]


class _Fault(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("index", ctypes.c_long),
        ("first", ctypes.c_long),
        ("end", ctypes.c_long),
        ("ended_early", ctypes.c_bool),
    ]

    def __str__(self) -> str:
        kind = self.kind.decode()
        if not self.name:
            return kind
        return f"{kind}: {self.name.decode()}[{self.index}], which has the elements {self.first} to {self.end - 1}"


def _argument(value: Any, kept: list[Any]) -> _Argument:
    """The argument in memory, which `kept` keeps. As torch passes them: integers as long, numbers as float."""
    if isinstance(value, ctypes.Array):
        return _Argument(ctypes.addressof(value), 0, len(value))
    if isinstance(value, (bool, int, float)):
        kind = {bool: ctypes.c_bool, int: ctypes.c_long, float: ctypes.c_float}[type(value)]
        kept.append(kind(value))
        return _Argument(ctypes.addressof(kept[-1]), 0, 1)
    import torch

    if value.dtype == torch.float64:  # a number that the wrapper has on the CPU
        value = value.float()
        kept.append(value)
    first = -value.storage_offset()
    elements = value.untyped_storage().nbytes() // value.element_size()
    return _Argument(value.data_ptr(), first, first + elements)


def _extent(sizes: int | Sequence[int]) -> tuple[int, ...]:
    found = (sizes,) if isinstance(sizes, int) else tuple(int(each) for each in sizes)
    return (*found, 1, 1)[:3]


def _three(sizes: tuple[int, ...]) -> Any:
    return (ctypes.c_uint * 3)(*sizes)


def _reported(errors: Any) -> str:
    """The first message that a kernel has reported with TORCH_REPORT_ERROR; "" for none."""
    raw = errors.raw
    if not int.from_bytes(raw[:4], "little"):
        return ""
    return raw[4 + 256 : 4 + 256 + 250].split(b"\0")[0].decode(errors="replace")


def _built(cpp: str) -> Path:
    """The library of a source, built if it is not in the cache. Raises SyntaxError and NotEmulatedError."""
    folder = _cache()
    key = hashlib.sha256("\n".join([cpp, *_OPTIONS]).encode()).hexdigest()[:24]
    path = folder / f"{key}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            source, made = Path(temporary) / "kernels.cpp", Path(temporary) / path.name
            source.write_text(f"#include <prelude.h>\n{cpp}", encoding="utf-8")
            result = _compile(["-shared", f"-I{folder}", str(source), "-o", str(made)])
            if result.returncode:
                raise SyntaxError(_errors(result.stderr))
            made.replace(path)
    return path


@functools.cache
def _compiler() -> str:
    found = shutil.which("g++") or shutil.which("c++")
    if not found:
        raise NotEmulatedError("there is no C++ compiler: install g++")
    return found


def _compile(options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    import torch

    headers = Path(torch.__file__).parent / "include"
    command = [_compiler(), *_OPTIONS, f"-I{_INCLUDE}", f"-I{headers}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@functools.cache
def _cache() -> Path:
    """The folder of built sources, with torch's headers for Metal precompiled. Raises NotEmulatedError."""
    import torch
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    texts = [path.read_text(encoding="utf-8") for path in sorted(_INCLUDE.iterdir())]
    version = subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    key = hashlib.sha256("\n".join([*texts, *_OPTIONS, torch.__version__, version, sysconfig.get_platform()]).encode())
    folder = Path(cache_dir()) / "metal" / key.hexdigest()[:16]
    if (folder / "prelude.h.gch").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        headers = ("utils", "reduction_utils", "special_math", "random", "atomic", "error")
        prelude = Path(temporary) / "prelude.h"
        prelude.write_text("".join(f"#include <c10/metal/{name}.h>\n" for name in headers), encoding="utf-8")
        made = Path(temporary) / "prelude.h.gch"
        result = _compile(["-x", "c++-header", str(prelude), "-o", str(made)])
        if result.returncode:
            raise NotEmulatedError(f"torch's headers for Metal do not build with the shim: {_errors(result.stderr)}")
        prelude.replace(folder / prelude.name)
        made.replace(folder / made.name)
    return folder


def _errors(text: str) -> str:
    """The compiler's errors, without its paths."""
    lines = [line for line in text.splitlines() if re.search(r"\berror:", line)] or text.splitlines()[:3]
    return "; ".join(re.sub(r"^\S*?([^/\s]+:\d+):\d+: (?:fatal )?error: ", r"\1: ", line) for line in lines[:3])
