"""The environment that must be set before torch is imported: variables. And which torch is installed.

capture/deviceless/prepare.py calls this once per process, as early as it can. Nothing here imports torch.
"""

from __future__ import annotations

import codecs
import importlib.metadata
import importlib.util
import locale
import logging
import os
import runpy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conformance.devices.targets import GPUS
from conformance.devices.torch_releases import VERSIONS, advised_version, supported_version
from conformance.errors import ConformanceError

#: Variables that torch, Inductor, Triton and the runtimes below them read. Of 229 that were tried, 62 change or break
#: the generated code.
_PREFIXES = ("TORCH", "PYTORCH_", "TRITON_", "INDUCTOR_", "AOT_", "ATEN_", "OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_",
             "ONEDNN_", "CUBLAS", "CUDNN_", "NVIDIA_TF32_OVERRIDE", "MLIR_", "LLVM_", "DISABLE_MMA_V")  # fmt: skip

#: The exceptions: they set paths or what is logged, and change no code.
_HARMLESS = ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_LOGS_FORMAT", "TORCH_TRACE", "TORCH_COMPILE_DEBUG", "TORCH_HOME",
             "TORCH_SHOW_CPP_STACKTRACES", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME",
             "TORCH_COMPILE_DEBUG_DIR", "TORCHDYNAMO_VERBOSE", "TRITON_LIBDEVICE_PATH",
             "TRITON_PTXAS_PATH")  # fmt: skip

#: Our own variables, see docs/public-names.md. Names of what our processes tell each other begin with "_".
OWN_VARIABLES = ("CONFORMANCE_CACHE", "CONFORMANCE_WORKERS", "CONFORMANCE_TORCH_INDEX")

#: Variables that hide all GPUs from the runtimes of CUDA, HIP and Level Zero.
HIDE_GPUS = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}

#: A variable that hides the devices of vendors from Machine.detect(), and all that hide every device.
HIDE_VENDORS = "_CONFORMANCE_HIDE_VENDORS"
HIDE_DEVICES = HIDE_GPUS | {HIDE_VENDORS: "1"}


@dataclass(frozen=True)
class TorchBuild:
    """The installed torch, read without importing it. `gpus`: the GPU device types it was built for.

    `hip`: whether it was built for ROCm, where cuda means GPUs of AMD.
    """

    version: str
    gpus: tuple[str, ...]
    folder: Path
    hip: bool = False

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split("+")[0].split(".")[:2]
        return int(major), int(minor)

    @property
    def binaries(self) -> Path:
        """The folder that really holds lib/ and include/: not `folder` where Python files are laid over a torch."""
        library = self.folder / "lib"
        return library.resolve().parent if library.is_symlink() else self.folder


class PreparationError(ConformanceError, RuntimeError):
    """The suite cannot run here: something is missing or cannot be written to. The message says how to fix it."""


@cache
def torch_build() -> TorchBuild:
    """The installed torch. Raises PreparationError if there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise PreparationError(f"torch is not installed: pip install torch=={advised_version()}")
    refuse_unusable_torch()
    return build_in(Path(spec.submodule_search_locations[0]))


def build_in(folder: Path) -> TorchBuild:
    """The torch in a folder, which holds version.py and lib/."""
    version = runpy.run_path(str(folder / "version.py"))
    keys = {"cuda": ("cuda", "hip"), "xpu": ("xpu",)}
    gpus = tuple(device for device in GPUS if any(version.get(key) for key in keys[device]))
    return TorchBuild(version["__version__"], gpus, folder, bool(version.get("hip")))


def refuse_unusable_torch() -> None:
    """Raises PreparationError where torch or its compiler cannot be imported.

    Python may find a checkout of PyTorch that was not built before the installed torch: `python -m` looks in the
    current folder first. Or it may read files in an encoding in which those of Inductor, which are UTF-8, are no text.
    """
    encoding = locale.getpreferredencoding(False)
    if codecs.lookup(encoding).name != "utf-8" and not _decodes_every_byte(encoding):
        raise PreparationError(
            f"Python reads text as {encoding} here, and torch's compiler cannot be imported so: set PYTHONUTF8=1, or "
            "LC_ALL=C.UTF-8"
        )
    spec = importlib.util.find_spec("torch")
    folder = Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None
    if folder and not (folder / "version.py").is_file():
        raise PreparationError(
            f"Python would import {folder}, which is a checkout of PyTorch that was not built, and not the installed "
            "torch: run the command in another folder. --torch-source and --source take the path of a checkout"
        )


def _decodes_every_byte(encoding: str) -> bool:
    try:
        bytes(range(256)).decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


@cache
def triton_version() -> str:
    """The version of the installed Triton, "" if there is none. Does not import Triton."""
    names = ("triton", "pytorch-triton-xpu", "triton-xpu", "pytorch-triton")
    return next((each.version for name in names for each in importlib.metadata.distributions(name=name)), "")


def triton_to_install() -> str:
    """What pip takes as the Triton that goes with the installed torch, such as "triton==3.7.1"."""
    version = supported_version(torch_build().version)
    return f"triton=={VERSIONS[version]}" if version else "triton"


def missing_triton_message() -> str:
    """Why no code for GPUs is generated, and how to get it. Call it only if there is no Triton."""
    return f"Triton is not installed: pip install {triton_to_install()}"


def variable_problem() -> str:
    """What is wrong with a variable that has a name like ours and is none of ours: nothing would read it. Else ""."""
    unknown = sorted(name for name in os.environ if name.startswith("CONFORMANCE_") and name not in OWN_VARIABLES)
    if not unknown:
        return ""
    return (
        f"{', '.join(unknown)} is set in the environment, and nothing reads it: unset it; our variables are "
        f"{', '.join(OWN_VARIABLES)}"
    )


def remove_code_variables() -> tuple[str, ...]:
    """Removes the variables that change generated code from the environment; returns their names, sorted."""
    names = sorted(name for name in os.environ if name.startswith(_PREFIXES) and name not in _HARMLESS)
    for name in names:
        del os.environ[name]
    return tuple(names)


def disable_trace_records() -> None:
    """Stops torch.__trace's records, unless TORCH_TRACE is set. Call it after torch is imported.

    PyTorch formats a record for each step of a compile, with whole graphs, as long as this logger has a handler. Its
    own handler removes itself at first use. But pytest adds one to every logger that does not propagate, and prints the
    records with a failure.
    """
    if "TORCH_TRACE" not in os.environ:
        trace = logging.getLogger("torch.__trace")
        trace.handlers.clear()
        trace.propagate = True
