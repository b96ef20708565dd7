"""What has to be settled before torch is imported: variables that change code, the cache folder, the pretended device.

`prepare()` is called once a process, as early as the plugin or the command line can; nothing here imports torch.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import runpy
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conformance.errors import ConformanceError

#: Variables that reach torch, Inductor, Triton and the runtimes below them; 62 of 229 tried change or break code.
_PREFIXES = ("TORCH", "PYTORCH_", "TRITON_", "INDUCTOR_", "AOT_", "ATEN_", "OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_",
             "ONEDNN_", "CUBLAS", "CUDNN_", "NVIDIA_TF32_OVERRIDE", "MLIR_", "LLVM_", "DISABLE_MMA_V")  # fmt: skip

#: Those of them that say where things are or what to show, and change no code.
_HARMLESS = ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_LOGS_FORMAT", "TORCH_TRACE", "TORCH_COMPILE_DEBUG", "TORCH_HOME",
             "TORCH_SHOW_CPP_STACKTRACES", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME",
             "TORCH_COMPILE_DEBUG_DIR", "TORCHDYNAMO_VERBOSE", "TRITON_LIBDEVICE_PATH",
             "TRITON_PTXAS_PATH")  # fmt: skip


#: With these no runtime finds a device: CUDA's, HIP's and Level Zero's.
HIDE_GPUS = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}


@dataclass(frozen=True)
class TorchBuild:
    """The installed torch, read without importing it. `gpu`: the device types it was built for."""

    version: str
    gpus: tuple[str, ...]
    folder: Path

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split("+")[0].split(".")[:2]
        return int(major), int(minor)


class PreparationError(ConformanceError, RuntimeError):
    """The environment cannot run the suite; the message says what to install."""


@cache
def torch_build() -> TorchBuild:
    """Raises PreparationError where torch is not installed."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise PreparationError("torch is not installed: pip install torch (2.11 or newer)")
    folder = Path(spec.submodule_search_locations[0])
    facts = runpy.run_path(str(folder / "version.py"))
    gpu = tuple(device for device, keys in (("cuda", ("cuda", "hip")), ("xpu", ("xpu",))) if any(map(facts.get, keys)))
    return TorchBuild(facts["__version__"], gpu, folder)


@cache
def triton_version() -> str:
    """The installed Triton's version, or "" without one. Triton itself is not imported."""
    names = ("triton", "pytorch-triton-xpu", "triton-xpu", "pytorch-triton")
    return next((found.version for name in names for found in importlib.metadata.distributions(name=name)), "")


def remove_code_variables() -> tuple[str, ...]:
    """Takes the variables that change generated code out of the environment; returns their names, sorted."""
    dropped = sorted(name for name in os.environ if name.startswith(_PREFIXES) and name not in _HARMLESS)
    for name in dropped:
        del os.environ[name]
    return tuple(dropped)


def cache_folder() -> Path:
    """Where compiled objects and the pretended device live: CONFORMANCE_CACHE, else the user's cache folder, else a
    temporary one when that cannot be written.

    Raises PreparationError for a CONFORMANCE_CACHE that cannot be written.
    """
    named = os.environ.get("CONFORMANCE_CACHE")
    if named:
        if why := _unwritable(Path(named)):
            raise PreparationError(f"CONFORMANCE_CACHE={named} cannot be written ({why}): name another folder")
        return Path(named)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "conformance"
    return Path(tempfile.gettempdir()) / f"conformance-{os.getuid()}" if _unwritable(folder) else folder


def _unwritable(folder: Path) -> str:
    """Why nothing can be put into the folder, or ""; it is made where it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def set_cache_variables() -> None:
    """Compiled objects are shared by workers and runs, apart from other users of Inductor, and by torch version."""
    folder = cache_folder() / f"torch-{torch_build().version}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))


def disable_trace_records() -> None:
    """Without TORCH_TRACE: no line of JSON for each step of a compile, which pytest keeps and prints with a failure.

    PyTorch makes these lines, graphs printed and all, as long as its logger has any handler; its own goes by itself
    when it is first used, and pytest puts one wherever a logger does not propagate. Call it once torch is imported.
    """
    if "TORCH_TRACE" not in os.environ:
        trace = logging.getLogger("torch.__trace")
        trace.handlers.clear()
        trace.propagate = True
