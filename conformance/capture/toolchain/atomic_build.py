"""Makes Inductor's C++ builds atomic: an interrupted run leaves no partial file.

A compiler writes its output to the final path. If `kill -9` or a full disk stops it, a partial file stays there. Every
later run would load that file and fail with "file too short".
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from conformance.capture.patching.patch import Patch
from conformance.capture.toolchain.kernel_linking import stub_library_flags

#: The 64-bit ELF header: its size, and the fields with the offset, entry size and number of the section headers.
_HEADER, _OFFSET, _SIZE, _NUMBER = 64, slice(40, 48), slice(58, 60), slice(60, 62)
#: The compiler's message for a full disk.
_DISK_FULL = "No space left on device"


def _build_atomically(original: Callable[..., Any]) -> Callable[..., Any]:
    """The original takes a lock and builds the missing files of the builders under it."""

    def worker_compile_cpp(lock_path: str, cpp_builders: Sequence[Any]) -> None:
        atomic = (each if isinstance(each, AtomicBuilder) else AtomicBuilder(each) for each in cpp_builders)
        return original(lock_path, tuple(atomic))  # inside another capture's context, they are atomic already

    return worker_compile_cpp


PATCH = Patch(
    "torch._inductor.codecache:_worker_compile_cpp",
    _build_atomically,
    "a run that ends while the compiler writes leaves a partial file, and later runs load it",
    optional=True,  # only interrupted runs need it
)


class AtomicBuilder:
    """Replaces a torch._inductor.cpp_builder.CppBuilder, for callers that ask for its path and build it.

    Private: its `_output`, `_ldflags_args`, `_libraries_args` and `_compiler`, the only way to build to another path.
    """

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def get_target_file_path(self) -> str:
        """The path of the built file. Deletes a partial file there."""
        path = self._builder.get_target_file_path()
        if path.endswith((".so", ".o")) and is_partial(Path(path)):
            Path(path).unlink()
        return path

    def build(self) -> None:
        """Builds to a temporary file beside the path, then renames it.

        Deletes a precompiled header that the compiler cannot read: this build then reads the header's source, and a
        later process precompiles it again.
        """
        from torch._inductor.exc import CppCompileError

        try:
            self._build()
        except CppCompileError as error:
            if _DISK_FULL in error.output:  # maybe after thousands of warnings
                raise OSError(f"{self._builder.get_target_file_path()}: {_DISK_FULL}") from None
            if not (header := _unreadable_header(error)):
                raise
            header.unlink(missing_ok=True)
            self._build()

    def _build(self) -> None:
        path = Path(self._builder.get_target_file_path())
        for leftover in path.parent.glob(f"{path.name}.*.part"):  # of an ended process: this one holds the lock
            leftover.unlink(missing_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        output, flags = self._builder._output, self._builder._ldflags_args  # "-o …", "-c -o …"; "-shared … "
        self._builder._output = output.replace(str(path), str(part))
        self._builder._ldflags_args = stub_library_flags(self._builder) + flags
        try:
            self._builder.build()
            part.replace(path)
        finally:
            self._builder._output, self._builder._ldflags_args = output, flags
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def is_partial(path: Path) -> bool:
    """Whether the file exists but ends before the table of section headers, the last part of an ELF file."""
    if sys.platform != "linux" or not path.exists():
        return False
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or header[:4] != b"\x7fELF":
        return True
    order: Literal["little", "big"] = "little" if header[5] == 1 else "big"
    offset, size, number = (int.from_bytes(header[place], order) for place in (_OFFSET, _SIZE, _NUMBER))
    return path.stat().st_size < offset + size * number


def _unreadable_header(error: Any) -> Path | None:
    """The precompiled header that the compiler could not read, such as a partial one. `error`: a CppCompileError."""
    if "-include" not in error.cmd or not any(name in error.output for name in ("PCH", "precompiled header", ".gch")):
        return None
    included = error.cmd[error.cmd.index("-include") + 1]
    return next((path for path in (Path(f"{included}.gch"), Path(f"{included}.pch")) if path.exists()), None)
