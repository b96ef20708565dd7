"""Builds and loads the C++ library of the pretended devices: built once per torch version, loaded before torch.

pretend_device.cpp, its main source, says why it is needed.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from conformance.devices.cpp_compiler import find_compiler, missing_compiler_message

if TYPE_CHECKING:
    from conformance.devices.environment import TorchBuild
    from conformance.devices.targets import Target

#: Device type → its number in the C++ sources (`Pretended`). A vendor's plugin generates code for mps.
DEVICES = {"cuda": 1, "xpu": 2, "mps": 4}

#: Operators that pretend_kernels.cpp implements itself.
_OWN_KERNELS = (
    "_copy_from", "_copy_from_and_resize", "_fused_rms_norm", "_local_scalar_dense", "_reshape_alias",
    "_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss", "_use_miopen_ctc_loss.Tensor",
    "as_strided", "convolution", "convolution_backward", "copy_", "cudnn_batch_norm", "cudnn_batch_norm_backward",
    "cudnn_grid_sampler", "cudnn_grid_sampler_backward", "empty.memory_format", "empty_strided", "miopen_batch_norm",
    "miopen_batch_norm_backward", "mish_backward", "resize_", "set_.source_Storage",
    "set_.source_Storage_storage_offset", "silu_backward", "unfold", "view",
)  # fmt: skip


_SOURCES = sorted(Path(__file__).parent.glob("pretend_*.cpp"))
_loaded: list[ctypes.CDLL] = []  # empty until load() succeeds, then one element


def load(build: TorchBuild, devices: tuple[str, ...], *, torch_was_imported: bool) -> str:
    """Loads the library, and builds it first if no build is cached. Returns why that failed, or "".

    `torch_was_imported`: torch is already imported, so it has looked up its own hooks.
    """
    devices = _known(devices)
    if not devices:
        return ""
    try:
        path = _build_library(build)
    except (OSError, subprocess.CalledProcessError) as error:
        return _message(error)
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(build.folder / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(path))
    pretend = library.pretend_late if torch_was_imported else library.pretend_hooks
    pretend(sum(DEVICES[device] for device in devices))
    _loaded.append(library)
    return ""


def _known(devices: tuple[str, ...]) -> tuple[str, ...]:
    """The device types of these that this library pretends. Vendors register the others."""
    return tuple(device for device in devices if device in DEVICES)


def is_built(build: TorchBuild) -> bool:
    """Whether a build is cached for this torch and the installed compiler."""
    cxx = find_compiler()
    return cxx is not None and _library_path(build, cxx).exists()


def probe(build: TorchBuild) -> str:
    """Builds a library of a few lines, from torch's headers and with torch's libraries, as the library itself is built.

    Returns why that failed, or "". It takes a second, the library itself a minute.
    """
    cxx = find_compiler()
    if cxx is None:
        return _message(OSError(missing_compiler_message()))
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "probe.cpp"
            source.write_text(_PROBE, encoding="utf-8")
            _compile(cxx, build, [source], Path(folder) / "probe.so")
    except (OSError, subprocess.CalledProcessError) as error:
        return _message(error)
    return ""


#: It needs C++20, a header of torch and a symbol of its library.
_PROBE = """\
#include <concepts>
#include <c10/core/DeviceType.h>
template <std::integral Number> Number same(Number x) { return x; }
extern "C" bool probe(int x) { return c10::isValidDeviceType(static_cast<c10::DeviceType>(same(x))); }
"""


def _message(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, OSError):
        return f"the pretended device cannot be built: {error}"
    lines = error.stderr.splitlines()
    errors = [line for line in lines if "error" in line or "failed" in line]  # the linker's line, not collect2's
    return f"the pretended device cannot be built: {errors[0] if errors else lines[0] if lines else error}"


@functools.cache
def register_operators(devices: tuple[str, ...]) -> None:
    """Registers the guards and operators of the pretended devices. Call it after torch is imported.

    They replace those that a build with cuda registers when it is imported. Only the first call has an effect.

    Private: torch._C._dispatch_get_registrations_for_dispatch_key, the only list of the kernels that a build has.
    """
    devices = _known(devices)
    for library in _loaded:
        library.pretend_guards(sum(DEVICES[device] for device in devices))
        for device in devices:
            replaced = [name for name in _operators_with_kernels(device.upper()) if name not in _OWN_KERNELS]
            library.pretend_kernels(DEVICES[device], _c_strings(replaced), len(replaced))
            library.pretend_sparse(
                DEVICES[device], *(_c_strings(_operators_with_kernels(key)) for key in ("SparseCPU", "SparseCsrCPU"))
            )


def _operators_with_kernels(key: str) -> list[str]:
    """The aten operators that have a kernel for a dispatch key."""
    import torch

    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return [name.removeprefix("aten::") for name in sorted(names) if name.startswith("aten::")]


def _c_strings(names: list[str]) -> ctypes.Array[ctypes.c_char_p]:
    """A C array of strings that ends with a null."""
    return (ctypes.c_char_p * (len(names) + 1))(*(name.encode() for name in names), None)


def set_device(target: Target | None) -> None:
    """Sets the device that PyTorch's C++ code sees from now on; None for no device.

    PyTorch chooses implementations of attention, convolution and others in C++. On cuda the choice depends on the
    capability and on cuDNN's version (0: the version of this torch's wheels). On rocm, MIOpen is in the place of cuDNN.
    On xpu, attention depends on whether Intel's flash attention runs on the device.
    """
    for library in _loaded:
        device = DEVICES.get(target.device, 0) if target else 0
        major, minor = target.capability if target and target.device == "cuda" else (0, 0)
        if target and target.device == "xpu":
            major = int(target.flash_attention)
        library.pretend_rocm(target is not None and target.platform == "rocm")
        library.pretend_attention.restype = ctypes.c_long
        cudnn = library.pretend_attention(device, major, minor, ctypes.c_long(target.cudnn if target else 0))
        library.pretend(device, major, minor, ctypes.c_long(cudnn))


def set_memory(has_memory: bool) -> None:
    """Sets whether tensors of a pretended device can be made. Where not, torch raises RuntimeError."""
    for library in _loaded:
        library.pretend_memory(has_memory)


def choice_count() -> int:
    """How often C++ code has chosen something so far by what the targets of a device type differ in."""
    return sum(library.pretend_choice_count() for library in _loaded)


def _build_library(build: TorchBuild) -> Path:
    """Returns the library's path; builds it if it is not cached. Raises OSError and CalledProcessError."""
    cxx = find_compiler()
    if cxx is None:
        raise OSError(missing_compiler_message())
    path = _library_path(build, cxx)
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # on a new machine, all workers need it at the same time
        if not path.exists():
            _compile(cxx, build, _SOURCES, path)
    return path


def _library_path(build: TorchBuild, cxx: str) -> Path:
    from conformance.devices.cache_folder import cache_folder

    key = hashlib.sha256(
        "\n".join([build.version, str(build.binaries), cxx, *(source.read_text() for source in _SOURCES)]).encode()
    ).hexdigest()[:16]
    return cache_folder() / f"pretend_device-{key}.so"


def _compile(cxx: str, build: TorchBuild, sources: Sequence[Path], path: Path) -> None:
    """Builds a library from C++ sources. Raises OSError and CalledProcessError."""
    include = build.folder / "include"
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        library = Path(folder) / path.name
        objects = [Path(folder) / f"{source.stem}.o" for source in sources]
        compile_command = [cxx, "-O1", "-std=c++20", "-fPIC", "-c"]
        compile_command += [f"-I{include}", f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}"]
        # each source takes about 10 s, most of it for torch's headers
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(lambda source, output: _run([*compile_command, source, "-o", output]), sources, objects))
        _run([cxx, "-shared", *objects, "-o", library, f"-L{build.folder / 'lib'}", "-lc10", "-ltorch_cpu"])
        library.replace(path)


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
