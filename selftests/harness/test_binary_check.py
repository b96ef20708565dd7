"""The binary check: what it compiles, stores and compares, and requirements on binaries."""

from __future__ import annotations

import pytest
from suites import SM90
from suites import PreloadedSuite as Suite

from conformance.devices.environment import triton_version
from conformance.storage import binaries

pytestmark = pytest.mark.skipif(not triton_version(), reason="kernels are compiled by Triton")

CASES = """
from conformance import case, tensor

@case(x=tensor(1024), require={"cuda": {"spills": 0, "widest_access": 64, "registers": "<=32", "tensor_cores": 0}})
def test_double(x):
    return x * 2

@case(x=tensor(1024), require={"cuda": {"registers": "<2"}})
def test_greedy(x):
    return x + 1
"""

#: Makes Inductor generate a kernel that does not compile.
PLANTED = """
import os

pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    if "PLANTED" in os.environ:
        from torch._inductor.codegen.triton import TritonOverrides
        TritonOverrides.sin = staticmethod(lambda x: f"tl.no_such({x})")
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    project = Suite(tmp_path_factory.mktemp("binaries"), PLANTED)
    project.write("ops/test_scale.py", CASES)
    project.write(
        "ops/test_wave.py",
        "from conformance import case, tensor\n@case(x=tensor(64))\ndef test_sin(x):\n    return x.sin()\n",
    )
    return project


def test_facts_of_binaries_can_be_demanded_and_nothing_is_stored_yet(suite):
    ran = suite.run(*SM90, "--checks", "requirements,binary", "ops/test_scale.py").ends(1)
    ran.has("scale/greedy on cuda_sm90: registers: wanted '<2', got ", "; 1 of 1 requirements not met")
    ran.has_not("scale/double on")
    ran.has("2 cases have no stored binaries yet (scale/double, scale/greedy): EXPECTTEST_ACCEPT=new pytest")
    ran.has("compiled to binaries: every kernel of 2 items")


def test_a_kernel_that_does_not_compile_fails_its_item(suite):
    ran = suite.run(*SM90, "--checks", "binary", "ops/test_wave.py", env={"PLANTED": "1"}).ends(1)
    ran.has("triton_poi_fused_sin_0 (inference) does not compile for cuda: line ", "tl.no_such(")


@pytest.mark.long("three pytest processes compile kernels to their binaries")
def test_what_is_accepted_is_compared(suite):
    checked = ("--target", "cuda_sm90,xpu_bmg", "--checks", "binary", "ops/test_scale.py")
    ran = suite.accept(*checked).ends(0)
    ran.has(
        "binaries: scale.txt: 2 new or changed",
        "compiled to binaries: every kernel of 2 items",
        "compiled as far as Triton ",
    )
    assert not (suite.root / "ops" / "expected_code").exists()
    stored = suite.root / "ops" / "expected_binary" / "scale.txt"
    first, _, heading, line, *_ = stored.read_text().splitlines()
    assert (first[:6], heading) == ("torch ", "== double: cuda_sm90")
    assert "spills 0, shared_memory 0, widest_access 64, tensor_cores 0" in line

    stored.write_text(stored.read_text().replace("spills 0", "spills 8", 1))
    ran = suite.run(*checked).ends(1)
    ran.has("scale/double-cuda_sm90: binaries differ from the stored ones:", "spills 8", "spills 0")
    ran.has_not("scale/greedy-cuda_sm90: binaries differ")


def test_another_triton_has_other_binaries(monkeypatch):
    monkeypatch.setattr(binaries, "triton_version", lambda: "3.7.1")
    stored = binaries.BinaryFile("2.13", "3.7.1")
    assert stored.has_versions("2.13.0+cpu")
    assert not stored.has_versions("2.15.0")
    monkeypatch.setattr(binaries, "triton_version", lambda: "3.7.2")
    assert not stored.has_versions("2.13.0+cpu")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nothing", "scale.txt:1: the first line is 'nothing'; write it like 'torch 2.13, Triton 3.7.1'"),
        ("torch 2.13, Triton 3.7.1\nkernel", "scale.txt:2: text before the first heading"),
        (
            "torch 2.13, Triton 3.7.1\n== x: cuda_sm90\na\n== x: cuda_sm90\nb",
            "scale.txt:4: x for cuda_sm90 has two headings",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(tmp_path, content, message):
    (tmp_path / "scale.txt").write_text(content)
    with pytest.raises(binaries.BinaryFileError, match=message.replace(".", r"\.")):
        binaries.read(tmp_path / "scale.txt")


def test_what_is_written_is_read_back(tmp_path):
    lines = {("a", "cuda_sm80"): ("x: 1",), ("a", "cuda_sm90"): ("x: 1",), ("b", "cuda_sm80"): ("x: 2", "y: 3")}
    stored = binaries.BinaryFile("2.13", "3.7.1", lines)
    binaries.write(tmp_path / "f.txt", stored, ["cuda_sm80", "cuda_sm90"])
    assert binaries.read(tmp_path / "f.txt") == stored
    assert "== a: cuda_sm80 cuda_sm90\nx: 1\n" in (tmp_path / "f.txt").read_text()
