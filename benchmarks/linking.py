"""How long a small kernel takes to build, linked with torch's libraries and with libraries of their names.

python benchmarks/linking.py
"""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.utils.benchmark

from conformance.capture.patching.patch import applied
from conformance.capture.toolchain import atomic_build

#: As every module for Python it leaves something open; the linker looks for it in torch's libraries.
KERNEL = """
extern "C" void* PyTuple_New(long);
extern "C" void kernel(const float* x, float* y) { for (int i = 0; i < 1000; ++i) y[i] = x[i] + 1; }
extern "C" void* answer() { return PyTuple_New(0); }
"""


def seconds(folder: Path, *, by_name: bool) -> float:
    """The median of several builds, as Inductor builds a kernel without its header."""
    from torch._inductor import codecache, cpp_builder, cpu_vec_isa

    (folder / "kernel.cpp").write_text(KERNEL)
    options = cpp_builder.CppTorchOptions(vec_isa=cpu_vec_isa.pick_vec_isa())
    builder = cpp_builder.CppBuilder("kernel", str(folder / "kernel.cpp"), options, str(folder))

    def build() -> None:
        Path(builder.get_target_file_path()).unlink(missing_ok=True)
        codecache._worker_compile_cpp(str(folder / "lock"), (builder,))  # noqa: SLF001 - what is measured

    with applied([atomic_build.PATCH]) if by_name else nullcontext():
        build()
        return torch.utils.benchmark.Timer("build()", globals={"build": build}).blocked_autorange(min_run_time=5).median


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = name
        symbols, names = (seconds(Path(name), by_name=by_name) for by_name in (False, True))
    print(f"linked with torch's libraries {symbols:.3f} s, with their names {names:.3f} s: {names / symbols:.2f}")


if __name__ == "__main__":
    main()
