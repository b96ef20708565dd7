"""What this machine has for the suite, and the commands that install what is missing."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.capture.deviceless import pretended_device
from conformance.capture.deviceless.prepare import prepare
from conformance.compiler.compiler import Compiler
from conformance.devices import environment
from conformance.devices.cache_folder import cache_folder
from conformance.devices.cpp_compiler import (
    DEFAULT_COMPILER,
    compiler_problem,
    find_compiler,
    missing_compiler_message,
    openmp_problem,
)
from conformance.devices.cpp_exceptions import exceptions_problem
from conformance.devices.cross_compiler import emulation_problem, toolchain_of
from conformance.devices.environment import PreparationError
from conformance.devices.machine import Machine
from conformance.devices.targets import GPUS, PLATFORMS, families, targets
from conformance.devices.torch_releases import NEWEST, OLDEST, advised_version, unsupported_message
from conformance.devices.vendor_devices import deviceless_problem
from conformance.errors import first_line

#: The vendor's number of a GPU → torch's device type, and the vendor.
_VENDORS = {"0x8086": ("xpu", "Intel"), "0x1002": ("cuda", "AMD")}


@dataclass(frozen=True)
class Finding:
    """`missing`: what is missing, and what does not work without it; "" for nothing. `command`: installs it.

    `fatal`: nothing works without it.
    """

    name: str
    text: str
    missing: str = ""
    command: str = ""
    fatal: bool = False


def names() -> list[str]:
    """The names that findings may have."""
    return ["compiler", "Python.h", "torch", "Triton", *families(), "deviceless", "qemu", "cache"]


def findings() -> Iterator[Finding]:
    """Yields all findings, each as soon as it is known. Imports torch, and says so to a person who waits.

    Builds no pretended devices: what is not built yet is tried with a few lines. So nothing can be captured afterwards.
    """
    yield _compiler()
    yield _headers()
    torch, cache = _torch(), _cache()
    yield torch
    yield _triton()
    if problem := environment.variable_problem():
        yield Finding("variables", problem, "An environment without this variable.", fatal=True)
    elif not (torch.fatal or cache.fatal):
        try:
            if environment.torch_build().gpus:
                _say_waiting("asking torch for the GPUs of this machine")
            yield from _devices(Machine.detect())
        except PreparationError as error:
            yield Finding("devices", str(error), "A torch that can list its devices.", fatal=True)
    yield _qemu()
    yield cache


def _say_waiting(what: str) -> None:
    """Says nothing to a file or a pipe."""
    if sys.stderr.isatty():
        print(f"({what} …)", file=sys.stderr)


def _compiler() -> Finding:
    path = find_compiler()
    if path is None:
        missing = "A C++ compiler. Without it, code for cpu is generated but not run; no code for GPUs is generated."
        command = install_command({"apt-get": "g++", "dnf": "gcc-c++", "zypper": "gcc-c++"})
        if name := os.environ.get("CXX"):
            missing = missing.replace("A C++ compiler.", f"A C++ compiler: CXX names {name}, which is not installed.")
            command = "unset CXX" if shutil.which(DEFAULT_COMPILER) else f"{command}  # then unset CXX"
        return Finding("compiler", f"none: {missing_compiler_message()}", missing, command)
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    missing = ""
    if problem := openmp_problem(path):
        missing = f"OpenMP. Without it, code for cpu is generated but not run: {problem}."
    elif exceptions_problem():
        missing = (
            "A C++ compiler that uses this machine's C++ library. Otherwise an exception of a kernel ends a process."
        )
    return Finding("compiler", f"{path} ({version[0] if version else 'unknown version'})", missing)


def _headers() -> Finding:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if header.exists():
        return Finding("Python.h", str(header))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    packages = {"apt-get": f"python{version}-dev", "dnf": f"python{version}-devel", "zypper": "python3-devel"}
    missing = f"Python's headers ({header}). Without them, code for cpu is generated but not run."
    return Finding("Python.h", "none", missing, install_command(packages))


def _torch() -> Finding:
    install = f"{short_executable(sys.executable)} -m pip install torch=="
    try:
        build = environment.torch_build()
    except PreparationError:
        missing = "torch. Nothing works without it."
        return Finding("torch", "not installed", missing, f"{install}{advised_version()}", fatal=True)
    if message := unsupported_message(build.version):
        missing = "A torch that is supported. With another one, nothing but another --backend works."
        return Finding("torch", message, missing, f"{install}{advised_version(build.version)}", fatal=True)
    return Finding("torch", f"{build.version} ({OLDEST.name} to {NEWEST.name} are supported)")


def _triton() -> Finding:
    version = environment.triton_version()
    if version:
        return Finding("Triton", version)
    try:
        wanted = environment.triton_to_install()
    except PreparationError:
        wanted = "triton"
    command = f"{short_executable(sys.executable)} -m pip install {wanted}"
    return Finding("Triton", "not installed", "Triton. Without it, no code for cuda and xpu is generated.", command)


def _devices(machine: Machine) -> Iterator[Finding]:
    compiler = Compiler(machine)
    build = environment.torch_build()
    is_unbuilt = bool(set(GPUS) - machine.gpus.keys()) and not pretended_device.is_built(build)
    if is_unbuilt:
        prepare(GPUS)  # pretends none
    compiler.prepare()
    if is_unbuilt:
        yield from _pretended_devices(compiler, pretended_device.probe(build))
    try:
        if compiler.vendors:
            _say_waiting("importing torch's compiler, to see whether each patch fits it")
            compiler.set_up_torch()
        else:
            _say_waiting("importing torch")
            importlib.import_module("torch")
    except (ImportError, OSError) as error:
        text = f"torch cannot be imported: {first_line(error)}"
        yield Finding("devices", text, "A torch that can be imported.", fatal=True)
        return
    for family in families():
        rows = [target for target in targets().values() if target.family == family]
        native = [target.name for target in rows if machine.is_native(target)]
        device = PLATFORMS.get(family, family)
        if device in machine.gpus and (target := machine.target_of(device)).family == family:
            native = [target.name]
        pretends = not deviceless_problem(device)
        generated = [target.name for target in rows if target.name not in native and pretends]
        text = machine.describe(device) if native or device not in machine.gpus else "deviceless"
        if pretends and (problem := next(filter(None, map(compiler.generation_problem, rows)), "")):
            yield Finding(family, f"{text}; nothing is generated: {problem}")
            continue
        if family == "cpu" and (problem := compiler_problem()):
            generated, native = [*native, *generated], []
            text += f"; nothing is run: {problem}"
        text += f"; run here: {', '.join(native)}" if native else ""
        text += f"; only generated: {', '.join(generated)}" if generated else ""
        yield Finding(family, text)
    if "cuda" not in machine.gpus and Path("/dev/nvidia0").exists():
        yield _unused_gpu()
    yield from unused_render_nodes(machine)


def _qemu() -> Finding:
    """Which processors of other architectures are emulated. None is needed, so that nothing is missing."""
    problems = {row.name: emulation_problem(row.isa) for row in targets().values() if toolchain_of(row.isa)}
    runs = [name for name, problem in problems.items() if not problem]
    lacks = sorted({problem for problem in problems.values() if problem})
    return Finding("qemu", "; ".join(filter(None, [f"emulates {', '.join(runs)}" if runs else "", *lacks])))


def _pretended_devices(compiler: Compiler, problem: str) -> Iterator[Finding]:
    """What to say of pretended GPUs that are not built yet. `problem`: why they cannot be built, or ""."""
    if not problem:
        yield Finding("deviceless", "the first run builds the pretended GPUs, which takes a minute of two cores")
        return
    for device in GPUS:
        if device not in compiler.machine.gpus:
            compiler.generation_problems.setdefault(device, problem)
    if find_compiler():  # else it is missing already
        missing = "A C++ compiler that builds C++20 with torch's headers. Without it, no code for GPUs is generated."
        yield Finding("deviceless", problem, missing)


def unused_render_nodes(
    machine: Machine, drm: Path = Path("/sys/class/drm"), devices: Path = Path("/dev/dri")
) -> Iterator[Finding]:
    """Yields the GPUs of Intel and AMD that the kernel has and torch does not use. `drm`, `devices`: of the kernel."""
    for node in sorted(drm.glob("renderD*")):
        vendor = node / "device" / "vendor"
        number = vendor.read_text(encoding="utf-8").strip() if vendor.exists() else ""
        device, name = _VENDORS.get(number, ("", ""))
        if not device or device in machine.gpus:
            continue
        text = f"this machine has a GPU of {name} that torch does not use"
        file = devices / node.name
        if device not in environment.torch_build().gpus:
            yield Finding("", f"{text}: this torch is built without {device if name == 'Intel' else 'ROCm'}")
        elif file.exists() and not os.access(file, os.R_OK | os.W_OK):
            missing = f"Access to {file}: this user has to be in its group. Without it, torch finds no {device} device."
            yield Finding("", text, missing, f"sudo usermod -aG {_group(file)} $USER  # then log in again")
        else:
            yield Finding("", text, "The GPU's driver: torch is built for the GPU, and its runtime finds none.")


def _group(file: Path) -> str:
    try:
        return file.group()
    except KeyError:
        return "render"


def _unused_gpu() -> Finding:
    version = environment.torch_build().version.partition("+")[0]
    text = "this machine has an NVIDIA GPU that this torch cannot use"
    if "cuda" in environment.torch_build().gpus:
        missing = "A driver that is new enough for this torch. Or CUDA_VISIBLE_DEVICES hides the GPU: then unset it."
        return Finding("", text, missing)
    command = f"{short_executable(sys.executable)} -m pip install --force-reinstall torch=={version}"
    return Finding("", text, "A torch that is built for CUDA. Without it, no code is run on the GPU.", command)


def _cache() -> Finding:
    try:
        folder = cache_folder()
    except PreparationError as error:
        command = "export CONFORMANCE_CACHE=/path/to/a/folder"
        return Finding("cache", str(error), "A cache folder that can be written.", command, fatal=True)
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Finding("cache", f"{folder} ({sum(files) / 2**20:.0f} MiB)")


def install_command(packages: dict[str, str]) -> str:
    """Returns the command of this machine's package manager. `packages`: package manager → name of the package."""
    for manager, package in packages.items():
        if shutil.which(manager):
            return f"{'' if os.geteuid() == 0 else 'sudo '}{manager} install {package}"
    return ""


def short_executable(executable: str) -> str:
    """Returns `python` if that is the executable, else its path."""
    return "python" if shutil.which("python") == executable else executable
