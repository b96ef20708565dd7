"""The digest of numerics: all that they depend on changes it, and what differs between two runs does not."""

from __future__ import annotations

import dataclasses
import itertools
import os
from pathlib import Path

import pytest

from conformance.capture.model import Capture, Module
from conformance.cases.loader import cases_in
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.harness.reuse import case_source as case_source_module
from conformance.harness.reuse import machine_state, numerics_digest
from conformance.harness.reuse.case_source import case_source
from conformance.harness.reuse.file_states import digest_of, folder_states
from conformance.harness.reuse.numerics_digest import harness_state, reason_to_run
from conformance.harness.reuse.torch_files import TorchFiles, torch_files

CASES = """
from conformance import case, tensor

@case(x=tensor(20), grad=[False, True], dynamic=[False, True])
def test_double(x):
    return x * 2

@case(x=tensor(20), numerics={"recompiles": 1, "reason": "another size"})
def test_again(x):
    return x + 1

@case(x=tensor(20), prepare=lambda: None)
def test_prepared(x):
    return x - 1
"""

WRAPPER = """# AOT ID: ['0_inference']
from torch._inductor.codegen.memory_planning import _align as align
# kernel path: /home/one/cache/inductor/ab/cab.py
constant0 = None  # cpu torch.float32 (3,) (1,) 7f0123456789
_c = None  # cpu torch.int64 () () -55
def call(args):
    extern_kernels.mm(x, y)
"""

SM90 = targets()["cuda_sm90"]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    file = tmp_path_factory.mktemp("digest") / "test_scale.py"
    file.write_text(CASES)
    return {case.id.removeprefix("scale/"): case for case in cases_in(file).values()}


@pytest.fixture
def case(cases):
    return cases["double-forward-static"]


def runtime(**changed) -> dict:
    return {"runtime": {"changed": [[], []], "outputs": ["(1,)"], "constants": {"constant0": "aa"}} | changed}


def captured(code: str = WRAPPER, mode: str = "deviceless", observed: dict | None = None, **fields) -> Capture:
    module = Module("inference", code, observed=runtime() if observed is None else observed)
    made = Capture("scale/double", "cuda_sm90", mode, "2.13.0", "3.7.1", [module])
    made.counters = {"stats": {"unique_graphs": 1}}
    return dataclasses.replace(made, **fields)


def digest(case, capture=None, target=SM90, machine=None) -> str:
    made = numerics_digest.numerics_digest(case, target, machine or Machine(), capture or captured())
    assert len(made) == 64
    return made


# What changes the digest ----------------------------------------------------------------------------------------------


def test_two_runs_have_one_digest(case):
    other_run = WRAPPER.replace("/home/one", "/home/another").replace("7f0123456789", "7e99").replace("-55", "1")
    other_run = other_run.replace("0_inference", "8_inference")
    assert other_run != WRAPPER
    assert digest(case, captured(other_run)) == digest(case)


@pytest.mark.parametrize(
    "changed",
    [
        captured(WRAPPER.replace("x, y", "y, x")),
        captured(WRAPPER.replace("(3,)", "(4,)")),
        captured(WRAPPER + "# a comment\n"),
        captured(mode="native"),
        captured(joint_graph="graph"),
        captured(observed=runtime(constants={"constant0": "ab"})),
        captured(observed=runtime(changed=[["x"], [0]])),
        captured(observed=runtime(outputs=["(2,)"])),
        captured(observed=runtime(aligns=True)),
    ],
)
def test_what_is_generated_changes_it(case, changed):
    assert digest(case, changed) != digest(case)


def test_case_and_target_change_it(cases, case):
    assert digest(cases["double-backward-static"]) != digest(case)
    assert digest(dataclasses.replace(case, numerics={"exact": True})) != digest(case)
    assert digest(dataclasses.replace(case, config={"max_fusion_size": 1})) != digest(case)
    assert digest(dataclasses.replace(case, mode="no_grad")) != digest(case)
    assert digest(case, target=targets()["cuda_sm80"]) != digest(case)
    properties = dict(SM90.properties) | {"multi_processor_count": 1}
    assert digest(case, target=dataclasses.replace(SM90, properties=properties)) != digest(case)


@pytest.mark.parametrize("part", ["harness_state", "_triton_state", "machine_state"])
def test_the_installation_changes_it(case, monkeypatch, part):
    before = digest(case)
    monkeypatch.setattr(numerics_digest, part, lambda: "changed")
    assert digest(case) != before


def test_the_gpu_changes_a_native_digest_only(case):
    one, other = (Machine(gpus={"cuda": {"capability": [9, 0], "properties": {"name": name}}}) for name in "ab")
    native = captured(mode="native")
    assert digest(case, native, machine=one) != digest(case, native, machine=other)
    assert digest(case, machine=one) == digest(case, machine=other)


def test_settings_of_the_process_change_it(case):
    import torch

    before, threads = digest(case), torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert digest(case) != before
    finally:
        torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float64)
    try:
        assert digest(case) != before
    finally:
        torch.set_default_dtype(torch.float32)


def test_an_edit_of_inductor_runs_only_what_it_may_change(cases, case, monkeypatch):
    """The generating parts count where numerics may compile again, and where generated code calls them."""

    def digests(running: str, **generating: str) -> tuple[str, ...]:
        files = {name.replace("__", "/") + ".py": state for name, state in generating.items()}
        monkeypatch.setattr(numerics_digest, "torch_files", lambda _: TorchFiles(running, files))
        plain = captured("def call(args): pass")
        configs = ({"dynamo.x": 1}, {"triton.cudagraphs": True})
        others = [cases["double-forward-dynamic"], cases["again"]]
        others += [dataclasses.replace(case, config=config) for config in configs]
        return (digest(case, plain), digest(case), *(digest(other, plain) for other in others))

    before = digests("a", lowering="1", kernel__mm="1", codegen__memory_planning="1")
    changed = {
        "lowering": digests("a", lowering="2", kernel__mm="1", codegen__memory_planning="1"),
        "kernel": digests("a", lowering="1", kernel__mm="2", codegen__memory_planning="1"),
        "memory_planning": digests("a", lowering="1", kernel__mm="1", codegen__memory_planning="2"),
        "running": digests("b", lowering="1", kernel__mm="1", codegen__memory_planning="1"),
    }
    # plain code; code that calls extern_kernels and imports memory_planning; dynamic; recompiles; Dynamo's; CUDA graphs
    assert {part: [a != b for a, b in zip(before, after, strict=True)] for part, after in changed.items()} == {
        "lowering": [False, False, True, True, True, True],
        "kernel": [False, True, True, True, True, True],
        "memory_planning": [False, True, True, True, True, True],
        "running": [True] * 6,
    }


# What always runs -----------------------------------------------------------------------------------------------------


def test_what_no_digest_shows_always_runs(cases, case):
    assert reason_to_run(case, captured()) == ""
    assert "prepare=" in reason_to_run(cases["prepared"], captured())
    assert "no generated code" in reason_to_run(case, captured(modules=[]))
    assert "no generated code" in reason_to_run(case, captured(error="ValueError: x"))
    assert "constant" in reason_to_run(case, captured(observed=runtime(constants={"constant0": ""})))
    assert "constant" in reason_to_run(case, captured(observed={}))
    assert "graph" in reason_to_run(case, captured(counters={"stats": {"unique_graphs": 2}}))
    forward = Module("forward", "code", observed=runtime())
    assert "graph" in reason_to_run(case, captured(modules=[forward]))
    backward = Module("backward", "code", observed=runtime())
    assert reason_to_run(case, captured(modules=[forward, backward])) == ""


# The files of torch ---------------------------------------------------------------------------------------------------


@pytest.fixture
def torch_folder(tmp_path):
    for name in ("_inductor/lowering.py", "_inductor/kernel/mm.py", "_inductor/codegen/cpp.py", "_inductor/config.py",
                 "_inductor/graph.py",
                 "_inductor/codegen/aoti_runtime/interface.cpp", "_inductor/runtime/hints.py", "lib/libtorch.so",
                 "_inductor/__pycache__/lowering.pyc", "include/ATen/vec.h", "_decomp/lowering.py"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "is_running"),
    [
        ("_inductor/lowering.py", False),
        ("_inductor/kernel/mm.py", False),
        ("_inductor/codegen/cpp.py", False),
        ("_inductor/codegen/aoti_runtime/interface.cpp", True),
        ("_inductor/config.py", True),
        ("_inductor/graph.py", True),
        ("_inductor/runtime/hints.py", True),
        ("_decomp/lowering.py", True),
        ("include/ATen/vec.h", True),
        ("lib/libtorch.so", True),
    ],
)
def test_an_edited_file_of_torch_changes_its_state(torch_folder, name, is_running):
    before = torch_files.__wrapped__(torch_folder)
    path = torch_folder / name
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    after = torch_files.__wrapped__(torch_folder)
    assert (before.running != after.running) == is_running
    assert (before.all_generating() != after.all_generating()) == (not is_running)


def test_caches_of_python_do_not_count(torch_folder):
    before = torch_files.__wrapped__(torch_folder)
    (torch_folder / "_inductor/__pycache__/lowering.pyc").write_text("other")
    assert torch_files.__wrapped__(torch_folder) == before


def test_a_folder_that_links_to_itself_ends(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    assert "file" in dict(folder_states(tmp_path))


# The source of a case -------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helper_of_reuse.py").write_text("from second_of_reuse import SIZE\n")
    (tmp_path / "second_of_reuse.py").write_text("SIZE = 3\n")
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "other.py").write_text("")
    file = tmp_path / "ops" / "test_scale.py"
    file.parent.mkdir()
    file.write_text(f"import helper_of_reuse, torch\n{CASES}")
    return tmp_path


def source(project: Path):
    case_source_module.case_source.cache_clear()
    return case_source(project / "ops" / "test_scale.py", "")


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ops/test_scale.py", True),
        ("helper_of_reuse.py", True),
        ("second_of_reuse.py", True),
        ("conftest.py", True),
        ("other.py", False),
    ],
)
def test_the_text_of_local_modules_counts(project, name, counts):
    before = source(project)
    with (project / name).open("a") as file:
        file.write("\n# edited\n")
    assert (source(project).digest != before.digest) == counts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import os\nSIZE = int(os.environ['SIZE'])", "environ"),
        ("SIZE = open('size').read()", "open"),
        ("from pathlib import Path\nSIZE = Path('size').read_text()", "read_text"),
        ("import torch\nSIZE = torch.load('size')", "torch.load"),
        ("from os import getenv as get\nSIZE = get('SIZE')", "getenv"),
        ("import importlib\nimportlib.import_module('x')", "import_module"),
        ("import ctypes", "ctypes"),
        ("SIZE = eval('3')", "eval"),
        ("SIZE = tl.load(x) + model.eval()", ""),
    ],
)
def test_a_source_that_reads_something_is_found(project, text, name):
    (project / "second_of_reuse.py").write_text(text)
    assert source(project).reader == (f"second_of_reuse.py: {name}" if name else "")


def test_a_relative_import_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "package_of_reuse"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("SIZE = 3")
    (package / "test_scale.py").write_text("from .sizes import SIZE\nfrom . import sizes")
    before = case_source(package / "test_scale.py", "package_of_reuse")
    (package / "sizes.py").write_text("SIZE = 4")
    case_source_module.case_source.cache_clear()
    assert case_source(package / "test_scale.py", "package_of_reuse") != before


# The suite and the machine --------------------------------------------------------------------------------------------


def test_the_text_of_the_suite_counts(tmp_path):
    for name in ("numerics/check.py", "capture/pretend.cpp", "review/text.py", "ops/test_flip.py", "py.typed"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    states = [harness_state.__wrapped__(tmp_path)]
    for name in ("numerics/check.py", "capture/pretend.cpp", "review/text.py", "ops/test_flip.py"):
        (tmp_path / name).write_text("after")
        states.append(harness_state.__wrapped__(tmp_path))
    assert [a != b for a, b in itertools.pairwise(states)] == [True, True, False, False]


def test_the_compiler_counts(tmp_path, monkeypatch):
    def state(text: str) -> str:
        compiler = tmp_path / "compiler"
        compiler.write_text(f"#!/bin/sh\necho {text}\n")
        compiler.chmod(0o755)
        os.utime(compiler, (1, 1))
        return digest_of(machine_state._compiler())

    monkeypatch.setenv("CXX", str(tmp_path / "compiler"))
    one = state("version 1")
    assert state("version 2") != one
    assert state("version 1") == one
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert digest_of(machine_state._compiler()) != one


@pytest.mark.parametrize(("name", "counts"), [("LD_PRELOAD", True), ("CXXFLAGS", True), ("HOME", False)])
def test_variables_that_libraries_read_count(monkeypatch, name, counts):
    before = list(machine_state._variables())
    monkeypatch.setenv(name, "changed")
    assert (list(machine_state._variables()) != before) == counts


def test_the_processor_counts():
    parts = list(machine_state._processor())
    if Path("/proc/cpuinfo").exists():
        assert any(part.startswith(("flags", "Features")) for part in parts)
        assert not any(part.startswith(("cpu MHz", "processor", "bogomips")) for part in parts)
    else:
        assert parts[0]
