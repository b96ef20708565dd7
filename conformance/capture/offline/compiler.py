"""Generated Triton kernels compiled to what the device runs, without the device: stages, and what a binary says.

    for kernel in offline.kernels(capture):
        for launch in offline.compiled(kernel): launch.registers, launch.spills, …

Inductor's own autotuner chooses the configurations and calls Triton, in a process of its own (offline_worker.py): a
kernel that crashes the compiler, or never ends, costs that process and no more.
"""

from __future__ import annotations

import ast
import atexit
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conformance.atomic_files import replace
from conformance.capture.deviceless.prepare import prepare
from conformance.capture.json_worker import EndedError, Process
from conformance.capture.model import Capture
from conformance.devices import environment
from conformance.devices.environment import HIDDEN
from conformance.errors import ConformanceError

#: Seconds that one kernel may take, all its configurations together; usual are 0.1 to 2.
LIMIT = 120.0
#: What Triton makes of a kernel, in its order, by device. sass is disassembled from the cubin.
STAGES = {"cuda": ("ttir", "ttgir", "llir", "ptx", "sass"), "xpu": ("ttir", "ttgir", "llir", "spv")}
#: Of what is remembered: another meaning of its numbers needs another one.
_FORMAT = 2

_TRITON = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)''', device_str='(\w+)'\)", re.DOTALL)


class KernelError(ConformanceError, AssertionError):
    """A generated kernel that does not compile, crashes the compiler or takes too long; the message names it."""

    status = 1


class StageError(ConformanceError, ValueError):
    """A stage that there is none of; the message says why, and which there are."""


@dataclass(frozen=True)
class Kernel:
    """A generated Triton kernel. `module`: inference, forward or backward; `device`: cuda or xpu."""

    name: str
    text: str
    device: str
    module: str


@dataclass(frozen=True)
class Launch:
    """One configuration that a kernel may be launched with, and what its binary says.

    `config`: blocks, warps and stages, in words. `last`: the last stage that the installed Triton makes: cubin or spv,
    or ttir without a backend for the device, and then the rest is None. `registers`: of 32 bits, a thread.
    `spills`: bytes of local memory a thread, which is what the driver says and Inductor looks at (4 times Triton's
    n_spills). `shared_memory`: bytes a block that are asked for at the launch. `widest_access`: bits of the widest load
    or store of global memory that a thread does at once, 0 without any. `tensor_cores`: instructions for them.
    """

    config: str
    last: str
    registers: int | None = None
    spills: int | None = None
    shared_memory: int | None = None
    widest_access: int | None = None
    tensor_cores: int | None = None


def kernels(capture: Capture) -> list[Kernel]:
    """The Triton kernels of a capture, in their order, each once a module; none for cpu.

    Raises KernelError where a module calls Triton kernels and none is found in its text.
    """
    found = []
    for module in capture.modules:
        texts = [
            Kernel(name, ast.literal_eval(f"'''{text}'''"), device, module.kind)
            for name, text, device in _TRITON.findall(module.code)
        ]
        if not texts and any(call.get("language") == "triton" for call in module.observed.get("calls", ())):
            raise KernelError(
                f"{capture.case} on {capture.target}: no Triton kernel was found in the text of the {module.kind} "
                f"module, although it calls some (torch {capture.torch})"
            )
        found += texts
    return found


def compiled(kernel: Kernel) -> list[Launch]:
    """What the kernel is compiled to, in each configuration that Inductor may launch it with (autotuning off).

    Remembered in the suite's cache folder. Raises KernelError.
    """
    known = _remembered(kernel)
    if known.exists():
        return [Launch(**launch) for launch in json.loads(known.read_text(encoding="utf-8"))]
    launches, _ = compiled_now(kernel)
    replace(known, json.dumps([asdict(launch) for launch in launches]))
    return launches


def compiled_now(kernel: Kernel) -> tuple[list[Launch], float]:
    """The same, from nothing remembered here, and the CPU seconds it took, those of ptxas among them."""
    answer = _asked(kernel)
    return [Launch(**launch) for launch in answer["launches"]], answer["seconds"]


def refuse_unknown_stage(name: str, device: str) -> None:
    """Raises StageError for a stage that kernels for the device never have."""
    known = STAGES.get(device)
    if known is None:
        raise StageError(f"there is no stage {name} on {device}: its kernels are C++; Triton's are for cuda and xpu")
    if name not in known:
        raise StageError(f"there is no stage {name} on {device}: known are {', '.join(known)}")


def stage(kernel: Kernel, name: str) -> list[tuple[str, str]]:
    """(configuration, text) of one stage. Raises StageError where there is none, and KernelError."""
    refuse_unknown_stage(name, kernel.device)
    texts = [(each["config"], each["text"]) for each in _asked(kernel, name)["stages"]]
    if any(text is None for _, text in texts):
        raise StageError(
            f"no {name} of {kernel.name}: Triton {environment.triton_version()} has no backend for {kernel.device}, so "
            "its kernels end at ttir; the Triton that comes with PyTorch for that device has one"
        )
    return texts


def _remembered(kernel: Kernel) -> Path:
    key = json.dumps([_FORMAT, environment.triton_version(), kernel.name, kernel.text])
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    return _folder() / f"{name}.json"


def _folder() -> Path:
    return environment.cache_folder() / f"torch-{environment.build().version}" / "offline"


def _asked(kernel: Kernel, stage: str = "", limit: float | None = None) -> dict[str, Any]:
    """The worker's answer. Raises KernelError."""
    request = {"name": kernel.name, "text": kernel.text, "stage": stage, "folder": str(_folder())}
    limit = LIMIT if limit is None else limit
    try:
        answer = _worker().ask(request, limit)
    except TimeoutError:
        raise KernelError(
            f"{kernel.name} ({kernel.module}) was cut off: it took more than {limit:g} s to compile for {kernel.device}"
        ) from None
    except EndedError as ended:
        raise KernelError(
            f"{kernel.name} ({kernel.module}) crashed the compiler for {kernel.device}: {ended}"
        ) from None
    if "raised" in answer:
        where = f"line {answer['line']} of its text, `{answer['source']}`: " if answer.get("line") else ""
        raise KernelError(
            f"{kernel.name} ({kernel.module}) does not compile for {kernel.device}: {where}{answer['raised']}"
        )
    return answer


@functools.cache
def _worker() -> Process:
    """One for this process, started when it is first asked."""
    prepare()  # places Triton's cache
    worker = Process("conformance.capture.offline.worker", _environment(os.environ), _folder())
    atexit.register(worker.close)
    return worker


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """No device, which compiling does not need, and no interpreter, with which nothing would be compiled."""
    return {name: value for name, value in variables.items() if name != "TRITON_INTERPRET"} | HIDDEN
