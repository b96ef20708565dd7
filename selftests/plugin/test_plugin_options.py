"""Options: which items they select, which values are refused, and the header."""

from __future__ import annotations

import pytest
from suites import NATIVE, SCALE
from suites import PreloadedSuite as Suite

SELECT = ("--collect-only", "-q")

AXES = """
from conformance import case, image

@case(x=image(3, size=[224, 256], dtype=["u8", "f32"], layout=["contiguous", "channels_last"]))
def test_hflip(x):
    return x.flip(-1)
"""


@pytest.fixture
def axes(tmp_path) -> Suite:
    suite = Suite(tmp_path)
    suite.write("ops/test_flip.py", AXES)
    suite.write("ops/test_scale.py", SCALE)
    return suite


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "tpu"], "unknown device 'tpu'; known are cpu, cuda, xpu, rocm, all"),
        (["--target", "cuda_sm70"], "unknown target 'cuda_sm70'; known are cpu_avx2, cpu_avx512, cpu_neon, cuda_sm80"),
        (["--checks", "numerics,speed"], "unknown check 'speed'; known are numerics, requirements, code"),
        (["--checks", ","], "--checks names nothing; known are numerics, requirements, code"),
        (["--device", "xpu", "--target", "cuda_sm90"], "--device xpu and --target cuda_sm90 have no target in common"),
        (["--device", "cuda", "--require-device"], "--require-device: this machine has no cuda device of the selected"),
        (["--baseline", "before"], "there is no run 'before'; existing runs: none (write one with --save-run)"),
    ],
)
def test_refused(axes, options, message):
    ran = axes.run(*options).ends(4)
    ran.has(message)
    ran.has_not("Traceback", "INTERNALERROR")
    assert not list(axes.root.glob(".conformance/runs/*"))


def test_a_run_is_not_compared_with_what_replaces_it(axes):
    axes.write(".conformance/runs/before/run.json", "{}")
    axes.run("--save-run", "before", "--baseline", "before").ends(4).has("a run cannot replace its own baseline")
    axes.run("--baseline", "after").ends(4).has("there is no run 'after'; existing runs: before")


def test_refused_with_workers(axes):
    ran = axes.run("-n", "2", "--device", "tpu").ends(4)
    ran.has("unknown device 'tpu'")
    ran.has_not("Traceback", "INTERNALERROR")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_nothing_selected(axes, workers):
    ran = axes.run("-n", workers, "--target", "cuda_sm90", "-k", "nosuch").ends(5)
    ran.has("-k 'nosuch' selects no item; list all items with: pytest --collect-only -q")


class TestSelection:
    def test_ids(self, axes):
        ran = axes.run(*SELECT, "--device", "cuda,xpu", "ops/test_flip.py").ends(0)
        ids = ran.lines("ops/")
        assert ids[:5] == [
            f"ops/test_flip.py::test_hflip[224-u8-contiguous-{target}]"
            for target in ("cuda_sm80", "cuda_sm90", "cuda_sm100", "xpu_pvc", "xpu_bmg")
        ]
        assert len(ids) == len(set(ids)) == 2 * 2 * 2 * 5

    def test_all_devices_by_default(self, axes):
        assert len(axes.run(*SELECT).lines("ops/")) == (8 + 2) * 8

    def test_intersection(self, axes):
        ids = axes.run(*SELECT, "--device", "cuda", "--target", "cuda_sm90,cpu_avx2", "ops/test_scale.py").lines("ops/")
        assert ids == [f"ops/test_scale.py::test_double[{dtype}-cuda_sm90]" for dtype in ("f32", "f16")]

    def test_by_word_and_by_id(self, axes):
        assert len(axes.run(*SELECT, "-k", "hflip and channels_last and f32 and sm90").lines("ops/")) == 2
        one = "ops/test_flip.py::test_hflip[224-u8-channels_last-cuda_sm90]"
        assert axes.run(*SELECT, one).lines("ops/") == [one]

    def test_collecting_leaves_no_run(self, axes):
        axes.run(*SELECT).ends(0)
        assert not list(axes.root.glob(".conformance/runs/*"))


def test_header(axes):
    import importlib.metadata

    [line] = axes.run("--collect-only", "-k", "scale").lines("conformance: ")
    assert line.startswith(f"conformance: torch {importlib.metadata.version('torch')}")
    assert f"Triton {importlib.metadata.version('triton')}" in line
    assert f"cpu native ({NATIVE.removeprefix('cpu_')}" in line
    assert "cuda deviceless; xpu deviceless" in line
    [line] = axes.run("--collect-only", "--device", "xpu").lines("conformance: ")
    assert "xpu deviceless" in line
    assert "cuda" not in line.partition("Triton")[2]


def test_variables_that_change_code_are_ignored_and_named(axes):
    variables = {"TORCHINDUCTOR_MAX_FUSION_SIZE": "1", "OMP_NUM_THREADS": "3"}
    ran = axes.run_alone("--collect-only", "-k", "scale", env=variables)
    names = "OMP_NUM_THREADS, TORCHINDUCTOR_MAX_FUSION_SIZE"
    ran.has(f"ignored environment variables, because they change generated code: {names}")


def test_collecting_imports_no_torch(axes):
    axes.write(
        "ops/conftest.py", "import sys\n\ndef pytest_collection_finish(): print('torch' in sys.modules, 'so far')\n"
    )
    axes.run_alone(*SELECT, "ops/test_scale.py", "-s").ends(0).has("False so far")
