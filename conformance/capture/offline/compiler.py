"""Compiles generated Triton kernels to binaries without the device, and reads the compiler stages and the binaries.

    for kernel in compiler.kernels(capture):
        for launch in compiler.launches(kernel): launch.registers, launch.spills, …

Inductor's own autotuner chooses the configurations and calls Triton, in a worker process (worker.py). A kernel that
crashes or hangs the compiler ends only that process.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conformance.atomic_files import write_atomically
from conformance.capture.deviceless.prepare import prepare
from conformance.capture.json_worker import JsonWorker, WorkerError, WorkerTimeoutError
from conformance.capture.model import Capture
from conformance.devices import environment
from conformance.devices.cache_folder import cache_folder
from conformance.devices.environment import HIDE_GPUS
from conformance.errors import ConformanceError

#: Seconds that one kernel may take, with all its configurations. Most kernels take 0.1 to 2 s.
LIMIT = 120.0
#: Device type or platform → the stages that Triton compiles a kernel through, in order. sass is disassembled from the
#: cubin; amdgcn is the assembly of the hsaco.
STAGES = {
    "cuda": ("ttir", "ttgir", "llir", "ptx", "sass"),
    "rocm": ("ttir", "ttgir", "llir", "amdgcn"),
    "xpu": ("ttir", "ttgir", "llir", "spv"),
}
#: Version of the cached launches. Raise it when the meaning of one of their numbers changes.
_CACHE_FORMAT = 3

#: How a line begins with which Triton's compiler prints its program after an error.
_PROGRAM = ("module", "#", "{-#", '"builtin.module"')
#: A line of the compiler before that: an error at a line of the kernel's text, or words without a place.
_DIAGNOSTIC = re.compile(r"(?:\S+\.py:(?P<line>\d+):\d+: (?P<error>error: )?)?(?P<text>(?!\S*Warning|/)\S.*)")

_TRITON = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)''', device_str='(\w+)'\)", re.DOTALL)


class KernelError(ConformanceError, AssertionError):
    """A generated kernel that does not compile, crashes the compiler or takes too long. The message names it."""

    status = 1


class StageError(ConformanceError, ValueError):
    """A stage that does not exist for the kernel. The message says why, and names the stages that exist."""


@dataclass(frozen=True)
class Kernel:
    """A generated Triton kernel. `module`: inference, forward or backward; `device`: cuda, rocm or xpu."""

    name: str
    text: str
    device: str
    module: str

    @property
    def is_users(self) -> bool:
        """Whether a user wrote the kernel. Inductor then writes another decorator around it."""
        return "@triton_heuristics.user_autotune(" in self.text


@dataclass(frozen=True)
class Launch:
    """One configuration that a kernel may be launched with, and the resources of its binary.

    `config`: blocks, warps and stages, as text. `last`: the last stage that the installed Triton reaches: cubin, hsaco
    or spv. Without a backend for the device it is ttir, and the fields after it are None, but for
    `combined`.

    Per thread: `registers` of 32 bits, and `spills`, the bytes of local memory (the driver's number, which Inductor
    reads too: 4 times Triton's n_spills); on rocm, registers of vectors, and bytes of scratch memory. Per block:
    `shared_memory` in bytes, as the launch requests it. `widest_access`: bits of the widest load or store of global
    memory by one thread, 0 without any. `tensor_cores`: the number of tensor-core instructions; on rocm, of the matrix
    cores. `combined`: how threads divide what they add up, see ttgir.py, "" where they
    add up nothing; on xpu without its backend,
    as cuda would.
    """

    config: str
    last: str
    registers: int | None = None
    spills: int | None = None
    shared_memory: int | None = None
    widest_access: int | None = None
    tensor_cores: int | None = None
    combined: str | None = None


def kernels(capture: Capture) -> list[Kernel]:
    """The Triton kernels of a capture, in the order of its code, each once per module. Empty for cpu.

    Raises KernelError for a module that calls Triton kernels when none is found in its text.
    """
    found = []
    for module in capture.modules:
        in_module = [
            Kernel(name, ast.literal_eval(f"'''{text}'''"), _family(device, text), module.kind)
            for name, text, device in _TRITON.findall(module.code)
        ]
        if not in_module and any(call.get("language") == "triton" for call in module.observed.get("calls", ())):
            raise KernelError(
                f"{capture.case} on {capture.target}: no Triton kernel was found in the text of the {module.kind} "
                f"module, although it calls some (torch {capture.torch})"
            )
        found += in_module
    return found


def _family(device: str, text: str) -> str:
    """The device type or platform of a kernel for torch's `device`: for ROCm, Inductor writes hip into the kernel."""
    return "rocm" if "DeviceProperties(type='hip'" in text else device


def launches(kernel: Kernel) -> list[Launch]:
    """Compiles a kernel in each configuration that Inductor may launch it with (autotuning off).

    Results are cached in the suite's cache folder. Raises KernelError.
    """
    cached = _cache_file(kernel)
    if cached.exists():
        return [Launch(**launch) for launch in json.loads(cached.read_text(encoding="utf-8"))]
    compiled, _ = compile_uncached(kernel)
    write_atomically(cached, json.dumps([asdict(launch) for launch in compiled]))
    return compiled


def build_kernels_of_users(capture: Capture) -> None:
    """Compiles the kernels that users wrote as far as the installed Triton can: its interpreter takes more than it.

    Raises KernelError with the compiler's own diagnostic.
    """
    for kernel in kernels(capture):
        if kernel.is_users:
            launches(kernel)


def compile_uncached(kernel: Kernel) -> tuple[list[Launch], float]:
    """Compiles a kernel without the suite's cache. Returns the launches and the CPU seconds, with those of ptxas."""
    answer = _ask_worker(kernel)
    return [Launch(**launch) for launch in answer["launches"]], answer["seconds"]


def refuse_unknown_stage(name: str, device: str) -> None:
    """Raises StageError for a stage that no kernel for the device has."""
    known = STAGES.get(device)
    if known is None:
        raise StageError(
            f"there is no stage {name} on {device}: its kernels are C++. Only Triton kernels, for cuda, rocm and "
            "xpu, have stages"
        )
    if name not in known:
        raise StageError(f"there is no stage {name} on {device}: its stages are {', '.join(known)}")


def stage_texts(kernel: Kernel, name: str) -> list[tuple[str, str]]:
    """(configuration, text) of one stage. Raises StageError for a stage that does not exist, and KernelError."""
    refuse_unknown_stage(name, kernel.device)
    texts = [(each["config"], each["text"]) for each in _ask_worker(kernel, name)["stages"]]
    if any(text is None for _, text in texts):
        raise StageError(
            f"no {name} of {kernel.name}: Triton {environment.triton_version()} has no backend for {kernel.device} and "
            f"compiles its kernels to ttir only. Install the Triton that PyTorch's {kernel.device} build needs"
        )
    return texts


def _cache_file(kernel: Kernel) -> Path:
    key = json.dumps([_CACHE_FORMAT, environment.triton_version(), kernel.name, kernel.text])
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    return _folder() / f"{name}.json"


def _folder() -> Path:
    return cache_folder() / f"torch-{environment.torch_build().version}" / "offline"


def _ask_worker(kernel: Kernel, stage: str = "") -> dict[str, Any]:
    """The worker's answer. Raises KernelError."""
    request = {
        "name": kernel.name,
        "text": kernel.text,
        "device": kernel.device,
        "stage": stage,
        "folder": str(_folder()),
    }
    title = f"{kernel.name} ({kernel.module})"
    try:
        answer = _worker().ask(request, LIMIT)
    except WorkerTimeoutError as error:
        raise KernelError(
            f"{title} was cut off: it took more than {LIMIT:g} s to compile for {kernel.device}: {error}"
        ) from None
    except WorkerError as error:
        raise KernelError(f"{title} crashed the compiler for {kernel.device}: {error}") from None
    if "raised" in answer:
        where = f"line {answer['line']} of its text, `{answer['source']}`: " if answer.get("line") else ""
        said = _diagnostic(_worker().said) or answer["raised"]
        raise KernelError(f"{title} does not compile for {kernel.device}: {where}{said}")
    return answer


def _diagnostic(said: str) -> str:
    """The compiler's own words in what it wrote to stderr before it printed its program; "" without any.

    `kernel.py:9:25: error: 'tt.load' op …` becomes `line 9: 'tt.load' op …`.
    """
    words = itertools.takewhile(lambda line: not line.startswith(_PROGRAM), said.splitlines())
    found = [match for match in map(_DIAGNOSTIC.fullmatch, words) if match]
    errors = [each for each in found if each["error"]] or found
    return "; ".join(
        dict.fromkeys(f"line {each['line']}: {each['text']}" if each["line"] else each["text"] for each in errors)
    )


@functools.cache
def _worker() -> JsonWorker:
    """The one worker of this process."""
    prepare()  # sets Triton's cache folder
    return JsonWorker("conformance.capture.offline.worker", _worker_environment(os.environ))


def _worker_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Hides all GPUs, which compiling does not need, and Triton's interpreter, which would compile nothing."""
    return {name: value for name, value in variables.items() if name != "TRITON_INTERPRET"} | HIDE_GPUS
