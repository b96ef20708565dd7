"""Builds are atomic: a run that ends while the compiler writes does not break later runs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from conformance.capture.patching.patch import applied
from conformance.capture.toolchain import atomic_build, kernel_linking
from conformance.devices.cpp_compiler import find_compiler

pytestmark = pytest.mark.skipif(not find_compiler(), reason="no C++ compiler")

#: Arguments: FOLDER [COMPILER]. Builds FOLDER/code.cpp to FOLDER/code.so.
BUILD = """
import sys
from torch._inductor import codecache, cpp_builder
from conformance.capture.patching.patch import applied
from conformance.capture.toolchain import atomic_build
folder, *compiler = sys.argv[1:]
options = cpp_builder.BuildOptionsBase(compiler=(compiler or ["g++"])[0], cflags=["fPIC"], ldflags=["shared"])
options._finalize_options()
builder = cpp_builder.CppBuilder("code", f"{folder}/code.cpp", options, folder)
with applied([atomic_build.PATCH]):
    codecache._worker_compile_cpp(f"{folder}/lock", (builder,))
"""


def options(*cflags, header=None, precompiling=False):
    from torch._inductor import cpp_builder

    build_options = cpp_builder.BuildOptionsBase(
        compiler=find_compiler(), cflags=["fPIC", *cflags], ldflags=["shared"], precompiling=precompiling
    )
    build_options.precompiled_header = header
    build_options._finalize_options()
    return build_options


def build(folder, build_options, source="code.cpp", name="code"):
    """Builds the source and returns the path of the built file."""
    from torch._inductor import codecache, cpp_builder

    builder = cpp_builder.CppBuilder(name, str(folder / source), build_options, str(folder))
    with applied([atomic_build.PATCH]):
        codecache._worker_compile_cpp(str(folder / "lock"), (builder,))
    return builder.get_target_file_path()


def answer(path):
    return ctypes.CDLL(path).answer()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "code.cpp").write_text('extern "C" int answer() { return 42; }\n')
    return tmp_path


def test_a_part_of_a_file_is_built_again(folder):
    built = build(folder, options())
    whole = (folder / "code.so").read_bytes()
    for part in (b"", whole[:30], whole[: len(whole) // 2], whole[:-1], bytes(len(whole))):
        (folder / "code.so").write_bytes(part)
        build(folder, options())
        assert (folder / "code.so").read_bytes() == whole
    assert answer(built) == 42


def test_a_whole_file_is_not_built_again(folder):
    built = build(folder, options())
    before = Path(built).stat().st_ino
    build(folder, options())
    assert Path(built).stat().st_ino == before


def test_a_part_of_a_precompiled_header_is_not_read(folder):
    """g++'s message depends on where the partial header ends."""
    (folder / "code.h").write_text("#include <string>\n#define ANSWER 42\n")
    (folder / "code.cpp").write_text('extern "C" int answer() { return ANSWER; }\n')
    header = build(folder, options(precompiling=True), "code.h", "code.h")
    whole = (folder / "code.h.gch").read_bytes()
    assert header == str(folder / "code.h.gch")
    for length in (10, 100, 5000, len(whole) - 10):
        (folder / "code.h.gch").write_bytes(whole[:length])
        (folder / "code.so").unlink(missing_ok=True)
        assert answer(build(folder, options(header=str(folder / "code.h")))) == 42
        assert length == 10 or not (folder / "code.h.gch").exists()


def test_a_compile_error_is_raised(folder):
    from torch._inductor.exc import CppCompileError

    (folder / "code.cpp").write_text("int answer() { return none; }\n")
    with pytest.raises(CppCompileError, match="none"):
        build(folder, options())
    assert not list(folder.glob("code.so*"))


def test_a_full_disk(folder):
    compiler = folder / "compiler"
    compiler.write_text("#!/bin/sh\necho a warning\necho ld: final link failed: No space left on device\nexit 1\n")
    compiler.chmod(0o755)
    full = options()
    full._compiler = str(compiler)
    with pytest.raises(OSError, match=r"/code.so: No space left on device$"):
        build(folder, full)


def test_a_process_killed_while_the_compiler_writes(folder):
    compiler = folder / "compiler"
    compiler.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nprintf "\\177ELF half of it" > "$2"\nkill -9 $PPID\n'
    )
    compiler.chmod(0o755)
    killed = subprocess.run([sys.executable, "-c", BUILD, folder, compiler], capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert not (folder / "code.so").exists()
    assert list(folder.glob("code.so.*.part"))
    assert answer(build(folder, options())) == 42
    assert not list(folder.glob("*.part"))


def test_torch_is_linked_by_its_names(folder, monkeypatch):
    """The linker reads none of torch's libraries; their symbols are found when the code is loaded."""
    from torch._inductor import cpp_builder
    from torch.utils.cpp_extension import include_paths, library_paths

    (folder / "code.cpp").write_text(
        '#include <ATen/Parallel.h>\nextern "C" int answer() { return at::get_num_threads(); }\n'
    )
    linked = cpp_builder.BuildOptionsBase(
        compiler=find_compiler(),
        include_dirs=include_paths(),
        cflags=["fPIC", "std=c++20"],
        ldflags=["shared"],
        libraries=list(kernel_linking.LIBRARIES),
        libraries_dirs=library_paths(),
    )
    linked._finalize_options()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "cache"))
    built = build(folder, linked)
    names = folder / "cache" / "names"
    assert sorted(path.name for path in names.iterdir()) == ["libtorch.so", "libtorch_cpu.so", "libtorch_python.so"]
    assert all(path.stat().st_size < 100_000 for path in names.iterdir())
    assert answer(built) == torch.get_num_threads()
    needed = Path(built).read_bytes()
    assert all(f"lib{name}.so\0".encode() in needed for name in kernel_linking.LIBRARIES)
