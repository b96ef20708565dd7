"""Cross compilers and qemu: how kernels for processors of other architectures are built and run on this machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from conformance.devices.targets import ARCHITECTURES


@dataclass(frozen=True)
class Toolchain:
    """What builds and runs programs of an architecture. `package`: of Debian, with the compiler."""

    compiler: str
    emulator: str
    package: str


#: Architecture → its tools, by the names that they have on Debian, Fedora and others.
TOOLCHAINS = {
    "aarch64": Toolchain("aarch64-linux-gnu-g++", "qemu-aarch64", "g++-aarch64-linux-gnu"),
    "ppc64le": Toolchain("powerpc64le-linux-gnu-g++", "qemu-ppc64le", "g++-powerpc64le-linux-gnu"),
    "s390x": Toolchain("s390x-linux-gnu-g++", "qemu-s390x", "g++-s390x-linux-gnu"),
}


def toolchain_of(isa: str) -> Toolchain | None:
    """The tools for an instruction set; None for those of x86-64."""
    return TOOLCHAINS.get(ARCHITECTURES.get(isa, ""))


def emulation_problem(isa: str) -> str:
    """Why C++ kernels for an instruction set are not emulated here, and how to change that; "" if they are."""
    tools = toolchain_of(isa)
    if tools is None:
        return f"kernels for {isa or 'this processor'} are not emulated"
    missing = [name for name in (tools.compiler, tools.emulator) if not shutil.which(name)]
    if missing:
        return f"{' and '.join(missing)} not found: apt-get install {tools.package} qemu-user"
    return ""
