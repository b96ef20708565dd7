"""What this machine has for the suite, a finding each, with the command that adds what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.devices import environment
from conformance.devices.cpp_compiler import compiler_problem, find_compiler, missing_compiler_message
from conformance.devices.environment import PreparationError
from conformance.devices.machine import Machine
from conformance.devices.targets import DEVICES, targets
from conformance.errors import first_line
from conformance.harness.session import NEWEST, OLDEST, Session
from conformance.settings import Settings
from conformance.storage.runs import Run

#: The Triton that goes with a torch without one of its own; as in tox.ini.
TRITON = {(2, 11): "3.6.0", (2, 13): "3.7.1", (2, 15): "3.9.0"}


@dataclass(frozen=True)
class Finding:
    """`missing`: what cannot be done, "" for nothing; `command`: what adds it; `fatal`: nothing can be done without."""

    name: str
    said: str
    missing: str = ""
    command: str = ""
    fatal: bool = False


def findings() -> Iterator[Finding]:
    """All findings; imports torch, and builds the pretended devices where that is still to be done."""
    yield _compiler()
    yield _headers()
    torch, cache = _torch(), _cache()
    yield torch
    yield _triton()
    if not (torch.fatal or cache.fatal):
        try:
            yield from _devices(Machine.detect())
        except PreparationError as error:
            yield Finding("devices", str(error), "A torch that finds its devices", fatal=True)
    yield cache


def _compiler() -> Finding:
    path = find_compiler()
    if path is None:
        what = "A C++ compiler: without one, code for cpu is generated, and not run; for gpus, not even generated"
        return Finding(
            "compiler",
            f"none: {missing_compiler_message()}",
            what,
            install({"apt-get": "g++", "dnf": "gcc-c++", "zypper": "gcc-c++"}),
        )
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return Finding("compiler", f"{path} ({said[0] if said else 'says no version'})")


def _headers() -> Finding:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if header.exists():
        return Finding("Python.h", str(header))
    short = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = install({"apt-get": f"python{short}-dev", "dnf": f"python{short}-devel", "zypper": "python3-devel"})
    return Finding("Python.h", "none", f"{header}: without it, code for cpu is generated, and not run", command)


def _torch() -> Finding:
    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    python = shortened(sys.executable)
    install_it = f"{python} -m pip install 'torch>={oldest}'"
    try:
        build = environment.torch_build()
    except PreparationError:
        return Finding("torch", "not installed", "torch: without it, nothing can be done", install_it, fatal=True)
    if build.release < OLDEST:
        only = f"{build.version} is too old: {oldest} is the oldest; numerics with --backend ipex alone can be checked"
        return Finding("torch", only, f"torch {oldest} or newer", install_it, fatal=True)
    tried = "" if build.release <= NEWEST else f"newer than {newest}, and tried: what does not fit is switched off; "
    return Finding("torch", f"{build.version} ({tried}{oldest} to {newest} are supported)")


def _triton() -> Finding:
    version = environment.triton_version()
    if version:
        return Finding("Triton", version)
    pin = ""
    if (spec := _release()) in TRITON:
        pin = f"=={TRITON[spec]}"
    what = "Triton: without it, no code for cuda and xpu is generated"
    return Finding("Triton", "not installed", what, f"{shortened(sys.executable)} -m pip install triton{pin}")


def _release() -> tuple[int, int]:
    try:
        return environment.torch_build().release
    except PreparationError:
        return (0, 0)


def _devices(machine: Machine) -> Iterator[Finding]:
    session = Session(Settings(), machine, Run(Path(os.devnull)))
    session.prepare()
    try:
        session.settle_torch()
    except (ImportError, OSError) as error:
        yield Finding(
            "devices", f"torch cannot be imported: {first_line(error)}", "A torch that can be imported", fatal=True
        )
        return
    for device in DEVICES:
        rows = [target for target in targets().values() if target.device == device]
        native = [target.name for target in rows if machine.is_native(target)]
        if device != "cpu" and device in machine.gpus:
            native = [machine.target_of(device).name]
        generated = [target.name for target in rows if target.name not in native]
        if problem := session.problems.get(device):
            yield Finding(device, f"{machine.describe(device)}; nothing is generated: {problem}")
            continue
        said = machine.describe(device)
        if device == "cpu" and (problem := compiler_problem()):
            generated, native = [*native, *generated], []
            said += f"; nothing is run: {problem}"
        said += f"; run: {', '.join(native)}" if native else ""
        said += f"; generated: {', '.join(generated)}" if generated else ""
        yield Finding(device, said)
    if "cuda" not in machine.gpus and Path("/dev/nvidia0").exists():
        yield _unused_gpu()


def _unused_gpu() -> Finding:
    version = environment.torch_build().version.partition("+")[0]
    said = "an NVIDIA GPU is here, and this torch cannot use it"
    if "cuda" in environment.torch_build().gpus:
        return Finding("", said, "A driver that is new enough for this torch, or CUDA_VISIBLE_DEVICES hides the GPU")
    command = f"{shortened(sys.executable)} -m pip install --force-reinstall torch=={version}"
    return Finding("", said, "A torch that is built for CUDA, to run code on the GPU that is here", command)


def _cache() -> Finding:
    try:
        folder = environment.cache_folder()
    except PreparationError as error:
        command = "export CONFORMANCE_CACHE=/a/folder/of/yours"
        return Finding("cache", str(error), "A cache folder that can be written", command, fatal=True)
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Finding("cache", f"{folder} ({sum(files) / 2**20:.0f} MiB)")


def install(packages: dict[str, str]) -> str:
    """The command of the package manager that is here; the names differ."""
    for manager, package in packages.items():
        if shutil.which(manager):
            return f"{'' if os.geteuid() == 0 else 'sudo '}{manager} install {package}"
    return ""


def shortened(executable: str) -> str:
    """`python` where that is the one that runs."""
    return "python" if shutil.which("python") == executable else executable
