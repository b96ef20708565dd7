"""pytest --quick: what it collects, and how it ends."""

from __future__ import annotations

import re

import pytest
from accidents import CONFTEST, PROCESSES
from suites import SCALE
from suites import PreloadedSuite as Suite

AXES = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]), dim=[0, 1], vary="one_at_a_time")
def test_sum(x, dim):
    return x.sum(dim)

@case(x=tensor(20), what=["fine"], only={"gpu": "why"})
def test_gpu(x, what):
    return x
"""


@pytest.fixture
def suite(tmp_path) -> Suite:
    project = Suite(tmp_path, CONFTEST)
    project.write("ops/test_axes.py", AXES)
    project.write("ops/test_scale.py", SCALE)
    return project


def collected(suite: Suite, *options: str) -> set[str]:
    ran = suite.run("--collect-only", "-q", "--quick", *options).ends(0)
    return {line.partition("::")[2] for line in ran.text.splitlines() if "::" in line}


def test_one_case_of_a_function_on_one_target_of_a_device(suite):
    names = {re.sub("cpu_[a-z0-9]+", "cpu", name) for name in collected(suite)}
    labels = {"test_sum": "f32-dim0-", "test_gpu": "fine-", "test_double": "f32-"}
    targets = ("cpu", "cuda_sm90", "xpu_bmg")
    assert names == {f"{test}[{label}{target}]" for test, label in labels.items() for target in targets}


def test_with_other_options(suite):
    assert collected(suite, "--device", "xpu", "-k", "sum") == {"test_sum[f32-dim0-xpu_bmg]"}
    assert collected(suite, "--target", "cuda_sm80,cuda_sm90", "-k", "sum") == {
        "test_sum[f32-dim0-cuda_sm80]",
        "test_sum[f32-dim0-cuda_sm90]",
    }


@pytest.mark.parametrize("processes", PROCESSES, ids=" ".join)
def test_the_end_says_that_it_compared_a_part(suite, processes):
    ran = suite.run("--quick", "--device", "xpu", "--checks", "numerics", *processes).ends(0)
    workers = " ".join(processes)
    last = ran.lines("--quick compared ")
    # three functions with 3, 1 and 2 cases, on xpu_pvc and xpu_bmg
    command = f"pytest -p no:cacheprovider --device xpu --checks numerics {workers}"
    assert last == [f"--quick compared one case of each function, 3 items; all 12 items: {command}"]
    lines = ran.text.splitlines()
    place = lines.index(last[0])
    assert lines[place - 1].startswith("3 items = 3 passed"), "the account is of what --quick selects"
    ran = suite.run("--quick", "--device", "xpu", "--checks", "numerics", *processes, "-k", "sum").ends(0)
    assert "1 item; all items: pytest " in ran.lines("--quick compared ")[0]


def test_without_quick(suite):
    suite.run("--device", "xpu", "-k", "sum", "--checks", "numerics").ends(0).has_not("--quick")
