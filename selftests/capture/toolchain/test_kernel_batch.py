"""Kernels of several captures in one translation unit: the same code, and a kernel alone where that is not possible."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from suites import NATIVE

from conformance import tensor
from conformance.capture.deviceless.prepare import in_use
from conformance.capture.toolchain import kernel_batch
from conformance.capture.toolchain.kernel_batch import KernelBatch
from conformance.cases.case import Case
from conformance.compiler import ahead
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.cpp_compiler import find_compiler
from conformance.devices.targets import targets

pytestmark = pytest.mark.skipif(not find_compiler() or not NATIVE, reason="no C++ compiler, or no CPU target runs here")

KERNEL = """
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0) {
    #pragma GCC ivdep
    for (int x0 = 0; x0 < 4; x0++) {}
}
// Python bindings to call kernel():
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef Py_GIL_DISABLED
#endif
PyMODINIT_FUNC PyInit_kernel(void) { return nullptr; }
"""


def make_case(name, fn, **arguments):
    return Case(
        operator="batch",
        name=name,
        labels=(),
        fn=fn,
        file=Path(__file__),
        arguments=arguments,
        choices={key: each.properties for key, each in arguments.items()},
        grad=(),
        dynamic=False,
        config={},
    )


def forget_loaded():
    """Makes Inductor look for the kernels again, as a later process does."""
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    CppPythonBindingsCodeCache.cache_clear()


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """An empty folder for compiled objects. The precompiled header stays: it takes seconds."""
    from conformance.capture.toolchain import precompiled_headers

    headers = str(precompiled_headers.folder())
    monkeypatch.setattr(precompiled_headers, "folder", lambda: Path(headers))
    with in_use():
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
        forget_loaded()
        yield tmp_path
        forget_loaded()


def capture_all(cases):
    """Captures of the cases, made ahead; their kernels are in the batch."""
    batch, target = KernelBatch(), targets()[NATIVE]
    waiting = []
    for each in cases:
        waiting.append(ahead.capture_ahead(each, target))
        waiting[-1].collect_kernels(batch)
    return batch, waiting


def results(waiting, case):
    with waiting.resumed() as captured:
        captured.build()
        return captured.compiled(**case.build())


def test_the_text_of_a_batch():
    text = kernel_batch.batch_text([KERNEL, KERNEL], ["a.cpp", "b.cpp"])
    assert text.count("#include <Python.h>") == text.count("cpp_prefix.h") == text.count("PY_SSIZE_T_CLEAN") == 1
    assert text.index("PY_SSIZE_T_CLEAN") < text.index("Python.h") < text.index("namespace kernel_0_of_batch")
    assert text.count("#pragma GCC ivdep") == 2
    alone, after = KERNEL.splitlines(), text.splitlines()
    start = after.index('#line 1 "b.cpp"') + 1
    assert after[start + alone.index("    #pragma GCC ivdep")] == "    #pragma GCC ivdep", "the number of its line"
    assert text.count("#define PyInit_kernel PyInit_kernel_1") == text.count("#undef PyInit_kernel") - 1 == 1


@pytest.mark.parametrize("line", ["#define tmp0 1", "#if SOMETHING", "  # undef x"])
def test_a_kernel_with_another_directive_is_compiled_alone(line):
    assert kernel_batch.can_be_in_batch(KERNEL)
    assert not kernel_batch.can_be_in_batch(KERNEL + line + "\n")


def three_cases():
    return [
        make_case("sin", lambda x: x.sin() + 1, x=tensor(40)),
        make_case("sums", lambda x: (x * 2).sum(-1), x=tensor(8, 40)),
        make_case("integers", lambda x: x * 3, x=tensor(40, dtype="i32")),
    ]


def test_results_are_bit_for_bit_those_of_kernels_alone(fresh_cache):
    cases = three_cases()
    alone = []
    for each in cases:
        with capture(CaseRequest(each, targets()[NATIVE], "native")) as captured:
            alone.append(captured.compiled(**each.build()))
    texts = len(list(fresh_cache.rglob("*.main.so")))
    for path in fresh_cache.rglob("*.main.so"):
        path.unlink()
    forget_loaded()
    batch, waiting = capture_all(cases)
    assert batch.compile() == texts == 3
    for each, one, wanted in zip(cases, waiting, alone, strict=True):
        got = results(one, each)
        assert got.dtype == wanted.dtype
        assert torch.equal(got, wanted)
    assert not list(fresh_cache.rglob("*.main.so")), "a kernel was compiled again, alone"
    assert len(list(fresh_cache.rglob("batch-*.so"))) == 1


def test_later_processes_find_the_kernels_of_a_batch(fresh_cache):
    cases = three_cases()
    batch, _ = capture_all(cases)
    assert batch.compile() == 3
    forget_loaded()
    batch, waiting = capture_all(cases)
    assert batch.compile() == 0
    torch.testing.assert_close(results(waiting[0], cases[0]), cases[0].fn(**cases[0].build()))
    assert not list(fresh_cache.rglob("*.main.so"))


@pytest.mark.long("it compiles each C++ kernel anew, in an empty cache")
@pytest.mark.parametrize("damage", ["truncated", "foreign", "gone"])
def test_a_damaged_batch_is_not_loaded(fresh_cache, damage):
    cases = three_cases()
    batch, waiting = capture_all(cases)
    assert batch.compile() == 3
    (library,) = fresh_cache.rglob("batch-*.so")
    if damage == "truncated":
        library.write_bytes(library.read_bytes()[:-100])
    elif damage == "foreign":
        library.write_text("no library")
    else:
        library.unlink()
    forget_loaded()
    for each, one in zip(cases, waiting, strict=True):
        torch.testing.assert_close(results(one, each), each.fn(**each.build()))
    assert len(list(fresh_cache.rglob("*.main.so"))) == 3


def test_a_kernel_that_the_compiler_refuses_fails_alone(fresh_cache):
    from torch._inductor.exc import CppCompileError

    cases = three_cases()
    batch, waiting = capture_all(cases)
    paths = [Path(each._sources_args) for each in batch._builders.values()]
    wrong = next(path for path in paths if "sin()" in path.read_text())
    wrong.write_text(wrong.read_text().replace("kernel(const", "kernel(konst"))
    assert batch.compile() == 0
    with pytest.raises(CppCompileError, match="konst"):
        results(waiting[0], cases[0])
    for each, one in list(zip(cases, waiting, strict=True))[1:]:
        torch.testing.assert_close(results(one, each), each.fn(**each.build()))


@pytest.mark.long("it compiles each C++ kernel anew, in an empty cache")
def test_options_of_the_compiler_divide_a_batch(fresh_cache):
    """A kernel without vectors has other flags than one with vectors."""
    cases = three_cases()
    batch, _ = capture_all([*cases, dataclasses.replace(cases[0], name="scalar", config={"cpp.simdlen": 1})])
    commands = {builder.get_command_line().split(" -o ")[0].split(".cpp ")[1] for builder in batch._builders.values()}
    assert len(commands) > 1
    batch.compile()
    (library,) = fresh_cache.rglob("batch-*.so")
    assert len(list(fresh_cache.rglob("*.batch"))) == 3
    assert library.exists()
