"""What results on this machine depend on besides torch: processor, C++ compiler, libraries, variables, drivers."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.devices.cpp_compiler import find_compiler
from conformance.devices.cross_compiler import TOOLCHAINS
from conformance.harness.reuse.file_states import digest_of, file_state

#: What /proc/cpuinfo says about a processor: x86 and Arm.
_PROCESSOR = ("vendor_id", "cpu family", "model", "model name", "stepping", "cache size", "flags", "CPU implementer",
              "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features")  # fmt: skip
#: Beginnings of the names of packages with code that results depend on. Their versions count.
_PACKAGES = ("cuda", "dpcpp", "intel", "mkl", "numpy", "nvidia", "onemkl", "pytorch", "sympy", "tbb", "torch", "triton")
#: Beginnings of variables that the suite does not remove and that compilers, loaders, libraries and drivers read.
_VARIABLES = ("ASAN_", "CC", "CFLAGS", "CPATH", "CPLUS_INCLUDE_PATH", "CPPFLAGS", "CUDA_", "CXX", "C_INCLUDE_PATH",
              "GLIBC_", "GPU_", "HIP_", "HSA_", "IGC_", "LDFLAGS", "LD_", "LIBRARY_PATH", "MALLOC_", "NEO", "NPY_",
              "NVIDIA_", "ONEAPI_", "OPENBLAS_", "PYTHONOPTIMIZE", "ROCR_", "SYCL_", "TRITON_LIBDEVICE_PATH",
              "TRITON_PTXAS_PATH", "UBSAN_", "UR_", "ZE_")  # fmt: skip
#: Shared libraries of the system that torch always loads.
_LIBRARY = re.compile(r" (/\S*/lib(?:c|m|stdc\+\+|c\+\+)[-.][^/\s]*)$", re.MULTILINE)
_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


@functools.cache
def machine_state() -> str:
    """The digest of all that is the same for each item of this process. Call it after torch is imported."""
    return digest_of([*_processor(), *_compiler(), *_python(), *_packages(), *_libraries(), *_variables()])


def gpu_state(gpu: dict[str, Any]) -> str:
    """The digest of a real GPU, as Machine.gpus describes it, and of its driver."""
    driver = _NVIDIA_DRIVER.read_text(encoding="utf-8") if _NVIDIA_DRIVER.exists() else ""
    return digest_of([json.dumps(gpu, sort_keys=True), driver])


def _processor() -> Iterator[str]:
    yield from (platform.machine(), platform.processor())
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        for line in first.splitlines():
            if line.partition(":")[0].strip() in _PROCESSOR:
                yield line


def _compiler() -> Iterator[str]:
    for tools in TOOLCHAINS.values():
        for tool in filter(None, map(shutil.which, (tools.compiler, tools.emulator))):
            yield from (os.path.realpath(tool), file_state(tool))
    path = find_compiler()
    if path is None:
        return
    yield from (path, os.path.realpath(path), file_state(path))
    try:  # where the path is a wrapper such as ccache, only the version tells
        yield subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        yield "no version"


def _python() -> Iterator[str]:
    yield from (sys.version, str(sys.flags), *platform.libc_ver())


def _packages() -> Iterator[str]:
    for folder in sys.path:
        try:
            names = [path.name for path in Path(folder).iterdir()]
        except OSError:
            continue
        yield from sorted(name for name in names if name.endswith("-info") and name.lower().startswith(_PACKAGES))


def _libraries() -> Iterator[str]:
    maps = Path("/proc/self/maps")
    if maps.exists():
        for path in sorted(set(_LIBRARY.findall(maps.read_text(encoding="utf-8", errors="replace")))):
            yield f"{path} {file_state(path)}"


def _variables() -> Iterator[str]:
    yield from sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(_VARIABLES))
