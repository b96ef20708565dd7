"""What Inductor builds with the C++ compiler is whole or not there, whenever a run was ended.

A compiler writes its output where it is looked for. Ended in the middle, by kill -9 or a full disk, it leaves a part,
which every later run would load, and fail: "file too short".
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conformance.capture.patching.patch import Patch
from conformance.capture.toolchain.kernel_linking import stub_library_flags

#: Of the ELF header, for 64 bits: its size, and where the offset, entry size and number of section headers are.
_HEADER, _OFFSET, _SIZE, _NUMBER = 64, slice(40, 48), slice(58, 60), slice(60, 62)
#: What the compiler says of a full disk.
_FULL = "No space left on device"


def _wholly(original: Callable[..., Any]) -> Callable[..., Any]:
    """It is given a lock and builders; under the lock, it builds what is not there (2.11 to 2.15)."""

    def worker_compile_cpp(lock_path: str, cpp_builders: Sequence[Any]) -> None:
        return original(lock_path, tuple(map(AtomicBuilder, cpp_builders)))

    return worker_compile_cpp


PATCH = Patch(
    "torch._inductor.codecache:_worker_compile_cpp",
    _wholly,
    "a run that is ended while the compiler writes leaves a part of a file, and later runs load it",
    optional=True,  # all the same where nothing is ended
)


class AtomicBuilder:
    """In place of a torch._inductor.cpp_builder.CppBuilder, for who asks where its file is and has it built."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def get_target_file_path(self) -> str:
        """Where the file is to be; a part of one is taken away."""
        path = self._builder.get_target_file_path()
        if path.endswith((".so", ".o")) and is_partial(Path(path)):
            Path(path).unlink()
        return path

    def build(self) -> None:
        """Builds beside the file, and renames. A precompiled header that cannot be read is taken away: what it was
        made from is read instead, once, and a later process makes it again.
        """
        from torch._inductor.exc import CppCompileError

        try:
            self._build()
        except CppCompileError as error:
            if _FULL in error.output:  # at the end of what may be thousands of warnings
                raise OSError(f"{self._builder.get_target_file_path()}: {_FULL}") from None
            if not (header := _unreadable_header(error)):
                raise
            header.unlink(missing_ok=True)
            self._build()

    def _build(self) -> None:
        path = Path(self._builder.get_target_file_path())
        for left in path.parent.glob(f"{path.name}.*.part"):  # by a process that was ended: this one has the lock
            left.unlink(missing_ok=True)
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
    """Whether a file is there that ends before an ELF file's last part, the table of section headers."""
    if sys.platform != "linux" or not path.exists():
        return False
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or header[:4] != b"\x7fELF":
        return True
    order = "little" if header[5] == 1 else "big"
    offset, size, number = (int.from_bytes(header[place], order) for place in (_OFFSET, _SIZE, _NUMBER))
    return path.stat().st_size < offset + size * number


def _unreadable_header(error: Any) -> Path | None:
    """The precompiled header that the compiler gave up at, g++ for a part of one. `error`: a CppCompileError."""
    if "-include" not in error.cmd or not any(name in error.output for name in ("PCH", "precompiled header", ".gch")):
        return None
    included = error.cmd[error.cmd.index("-include") + 1]
    return next((path for path in (Path(f"{included}.gch"), Path(f"{included}.pch")) if path.exists()), None)
