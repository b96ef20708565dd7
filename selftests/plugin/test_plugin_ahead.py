"""Items captured ahead: kernels are compiled in batches, and an accident there costs its own item only."""

from __future__ import annotations

import pytest
from accidents import CONFTEST, PROCESSES, options, outcomes, with_items
from suites import NATIVE, SCALE, Suite, empty_cache

from conformance.devices.cpp_compiler import find_compiler

#: Capturing ahead does what the item does in its turn.
AHEAD = r"""
from conformance.compiler import ahead

def capture_ahead(case, target):
    what = case.labels[0]
    if what.startswith("segfault"):
        ctypes.string_at(0)
    elif what.startswith("hang"):
        time.sleep(1000)
    raise ahead.NotAheadError("planted")

ahead.capture_ahead = capture_ahead
"""
ITEMS = ("fine1", "segfault1", "fine2", "hang", "fine3")


@pytest.mark.parametrize(
    "processes",
    [
        PROCESSES[0],
        pytest.param(PROCESSES[1], marks=pytest.mark.long("it runs pytest with workers, each of which imports torch")),
    ],
    ids=" ".join,
)
def test_an_accident_ahead_of_its_item(tmp_path, processes):
    suite = with_items(Suite(tmp_path, CONFTEST + AHEAD), *ITEMS)
    ran = suite.run(*options(*processes, "--item-timeout", "5", "--kernels", "batched"))
    ran.ends(1)
    recorded = outcomes(suite)
    assert recorded.keys() == set(ITEMS)
    assert "SIGSEGV" in recorded["segfault1"]
    assert "time limit of 5 s" in recorded["hang"]
    assert {recorded[name] for name in ITEMS if name.startswith("fine")} == {"numerics passed"}
    ran.has(f"{len(ITEMS)} items = 3 passed + 2 failed")


FULL_DISK = r"""
from conformance.capture.toolchain.kernel_batch import KernelBatch

def compile(self):
    raise OSError(28, "No space left on device")

KernelBatch.compile = compile
"""


def test_a_full_disk_ahead_of_the_items(tmp_path):
    """The items run alone: an error outside of an item would end the run."""
    suite = with_items(Suite(tmp_path, CONFTEST + AHEAD + FULL_DISK), "fine1", "fine2")
    ran = suite.run(*options("-n", "0", "--kernels", "batched"))
    ran.ends(0).has("2 items = 2 passed")
    ran.has_not("INTERNALERROR")


SLOW_COMPILER = """
import time
from conformance.capture.toolchain.kernel_batch import KernelBatch

KernelBatch.compile = lambda self: time.sleep(1000)
"""


def test_kernels_that_take_too_long_together(tmp_path):
    """No item of the batch is to blame: each one is compiled in its turn."""
    suite = with_items(Suite(tmp_path, CONFTEST + AHEAD + SLOW_COMPILER), "fine1", "fine2", "fine3")
    suite.run(*options("-n", "1", "--item-timeout", "5", "--kernels", "batched")).ends(0).has("3 items = 3 passed")


@pytest.mark.long("it compiles all C++ kernels of a run in an empty cache")
@pytest.mark.skipif(not find_compiler() or not NATIVE, reason="no C++ compiler, or no CPU target runs here")
@pytest.mark.parametrize("kernels", ["batched", "alone"])
def test_kernels_of_a_run(tmp_path, kernels):
    suite = Suite(tmp_path / "suite")
    suite.write("ops/test_scale.py", SCALE.replace('["f32", "f16"]', '["f32", "f16", "bf16", "i32"]'))
    arguments = ("-n", "0", "--target", NATIVE, "--checks", "numerics,requirements", "--kernels", kernels)
    ran = suite.run(*arguments, env={"CONFORMANCE_CACHE": str(empty_cache(tmp_path))})
    ran.ends(0).has("4 items = 4 passed", "numerics passed: 4 native")
    batched = list((tmp_path / "cache").rglob("*.main.so.batch"))
    alone = list((tmp_path / "cache").rglob("*.main.so"))
    assert (len(batched), len(alone)) == ((12, 0) if kernels == "batched" else (0, 12))  # two with other inputs each


def test_an_unknown_value_of_kernels(tmp_path):
    Suite(tmp_path).run("--kernels", "together").ends(4).has("--conformance-kernels", "'batched', 'alone'")
