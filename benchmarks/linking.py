"""Times building a small kernel, linked with torch's libraries and with stub libraries of the same names.

python benchmarks/linking.py
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.utils.benchmark

from conformance.capture.patching.patch import applied
from conformance.capture.toolchain import atomic_build

#: Like every extension module, it has an undefined symbol of Python; the linker searches torch's libraries for it.
KERNEL = """
extern "C" void* PyTuple_New(long);
extern "C" void kernel(const float* x, float* y) { for (int i = 0; i < 1000; ++i) y[i] = x[i] + 1; }
extern "C" void* answer() { return PyTuple_New(0); }
"""


def median_build_seconds(folder: Path, *, use_stubs: bool) -> float:
    """Median seconds of several builds. Inductor builds a kernel without its header this way."""
    from torch._inductor import codecache, cpp_builder, cpu_vec_isa

    (folder / "kernel.cpp").write_text(KERNEL)
    options = cpp_builder.CppTorchOptions(vec_isa=cpu_vec_isa.pick_vec_isa())
    builder = cpp_builder.CppBuilder("kernel", str(folder / "kernel.cpp"), options, str(folder))

    def build() -> None:
        Path(builder.get_target_file_path()).unlink(missing_ok=True)
        codecache._worker_compile_cpp(str(folder / "lock"), (builder,))  # noqa: SLF001 - what is measured

    with applied([atomic_build.PATCH]) if use_stubs else nullcontext():
        build()
        return torch.utils.benchmark.Timer("build()", globals={"build": build}).blocked_autorange(min_run_time=5).median


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = name
        libraries, stubs = (median_build_seconds(Path(name), use_stubs=use_stubs) for use_stubs in (False, True))
    print(
        f"linked with torch's libraries {libraries:.3f} s, with stub libraries {stubs:.3f} s: {stubs / libraries:.2f}"
    )


if __name__ == "__main__":
    main()
