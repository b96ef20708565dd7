"""The library that answers for a device that is not there: built once for a torch version, loaded before torch.

Its source, pretend_device.cpp, says why it is needed.
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

from conformance.devices.cpp_compiler import find_compiler, missing_compiler_message

if TYPE_CHECKING:
    from conformance.devices.environment import TorchBuild
    from conformance.devices.targets import Target

DEVICES = {"cuda": 1, "xpu": 2}

#: Operators for which pretend_kernels.cpp has kernels of its own.
_OWN_KERNELS = (
    "_copy_from", "_copy_from_and_resize", "_fused_rms_norm", "_local_scalar_dense", "_reshape_alias",
    "_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss", "_use_miopen_ctc_loss.Tensor",
    "as_strided", "convolution", "convolution_backward", "copy_", "cudnn_batch_norm", "cudnn_batch_norm_backward",
    "cudnn_grid_sampler", "cudnn_grid_sampler_backward", "empty.memory_format", "empty_strided", "mish_backward",
    "resize_", "set_.source_Storage", "set_.source_Storage_storage_offset", "silu_backward", "unfold", "view",
)  # fmt: skip


_SOURCES = sorted(Path(__file__).parent.glob("pretend_*.cpp"))
_loaded: list[ctypes.CDLL] = []  # the one, once it is there


def load(build: TorchBuild, devices: tuple[str, ...], *, late: bool) -> str:
    """Loads the library, building it first where no build of it is cached; returns why it cannot be, or "".

    `late`: torch is imported already, so that its hooks may have been looked up.
    """
    if not devices:
        return ""
    try:
        path = _built(build)
    except OSError as error:
        return f"the pretended device cannot be built: {error}"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.splitlines()
        why = [line for line in lines if "error" in line or "failed" in line]  # the linker's own before collect2's
        said = why[0] if why else lines[0] if lines else error
        return f"the pretended device cannot be built: {said}"
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(build.folder / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    found = ctypes.CDLL(str(path))
    found.pretend_hooks(sum(DEVICES[device] for device in devices))
    if late and not all(found.pretend_answers(DEVICES[device]) for device in devices):
        return "torch was imported before the plugin: load it first, with pytest_plugins = ['conformance.plugin']"
    _loaded.append(found)
    return ""


@functools.cache
def register_operators(devices: tuple[str, ...]) -> None:
    """Takes over the guards and operators, which a build with cuda has registered by now. Call after torch is imported.

    Has an effect once. torch._C._dispatch_get_registrations_for_dispatch_key is the only list of what a build has
    kernels for (2.11 to 2.15).
    """
    for found in _loaded:
        found.pretend_guards(sum(DEVICES[device] for device in devices))
        for device in devices:
            replaced = [name for name in _operators_with_kernels(device.upper()) if name not in _OWN_KERNELS]
            found.pretend_kernels(DEVICES[device], _c_strings(replaced), len(replaced))
            found.pretend_sparse(
                DEVICES[device], *(_c_strings(_operators_with_kernels(key)) for key in ("SparseCPU", "SparseCsrCPU"))
            )


def _operators_with_kernels(key: str) -> list[str]:
    """The operators of aten that have a kernel for a dispatch key."""
    import torch

    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return [name.removeprefix("aten::") for name in sorted(names) if name.startswith("aten::")]


def _c_strings(names: list[str]) -> ctypes.Array[ctypes.c_char_p]:
    """For C, with a null at the end."""
    return (ctypes.c_char_p * (len(names) + 1))(*(name.encode() for name in names), None)


def set_device(target: Target | None) -> None:
    """Which device is there from now on, for PyTorch's C++ parts; None for none.

    Attention, convolution and more are chosen in C++: on cuda by the capability and cuDNN's version (0: that of this
    torch's wheels), attention on xpu by whether Intel's flash attention runs on the device.
    """
    for found in _loaded:
        device = DEVICES[target.device] if target else 0
        major, minor = target.capability if target and target.device == "cuda" else (0, 0)
        if target and target.device == "xpu":
            major = int(target.flash_attention)
        found.pretend_attention.restype = ctypes.c_long
        cudnn = found.pretend_attention(device, major, minor, ctypes.c_long(target.cudnn if target else 0))
        found.pretend(device, major, minor, ctypes.c_long(cudnn))


def _built(build: TorchBuild) -> Path:
    from conformance.devices.environment import cache_folder

    cxx = find_compiler()
    if cxx is None:
        raise OSError(missing_compiler_message())
    key = hashlib.sha256(
        "\n".join([build.version, str(build.folder), cxx, *(source.read_text() for source in _SOURCES)]).encode()
    ).hexdigest()[:16]
    path = cache_folder() / f"pretend_device-{key}.so"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    include = build.folder / "include"
    # Several workers may build at once: each its own file, the last rename wins, and all are the same.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        objects = [Path(folder) / f"{source.stem}.o" for source in _SOURCES]
        compiled = [cxx, "-O1", "-std=c++20", "-fPIC", "-c"]
        compiled += [f"-I{include}", f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}"]
        # each takes about 10 s, most of it torch's headers
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(lambda source, made: _run([*compiled, source, "-o", made]), _SOURCES, objects))
        _run([cxx, "-shared", *objects, "-o", built, f"-L{build.folder / 'lib'}", "-lc10", "-ltorch_cpu"])
        built.replace(path)
    return path


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
