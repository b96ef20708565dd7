"""Targets of a missing GPU type share a capture where it is the same, and nothing else."""

from __future__ import annotations

import json

import pytest
from suites import NATIVE
from suites import PreloadedSuite as Suite

CASES = """
import torch

from conformance import case, tensor

@case(x=tensor(20))
def test_double(x):
    return x * 2

@case(x=tensor(20))
def test_capability(x):
    return x + torch.cuda.get_device_capability()[0] if x.is_cuda else x + 9
"""

#: Inductor generates wrong code for products on Hopper alone.
WRONG_ON_SM90 = """
def pytest_collection_modifyitems():
    import torch
    from torch._inductor import lowering
    aten = torch.ops.aten
    before, add = lowering.lowerings[aten.mul.Tensor], lowering.lowerings[aten.add.Tensor]

    def product(a, b):
        wrong = torch.cuda.get_device_capability() == (9, 0)
        return add(before(a, b), 1) if wrong else before(a, b)

    lowering.lowerings[aten.mul.Tensor] = product
"""

WRONG_EVERYWHERE = WRONG_ON_SM90.replace("torch.cuda.get_device_capability() == (9, 0)", "True")

THREE = ("--target", "cuda_sm80,cuda_sm90,cuda_sm100")


@pytest.fixture
def suite(tmp_path):
    made = Suite(tmp_path)
    made.write("ops/test_scale.py", CASES)
    made.write("wrong_on_sm90.py", WRONG_ON_SM90)
    made.write("wrong_everywhere.py", WRONG_EVERYWHERE)
    return made


def shared(suite) -> dict[str, str]:
    """Item → the target that it shares its capture with, of the last run."""
    records = (json.loads(path.read_text()) for path in (suite.root / ".conformance/runs/last/items").rglob("*.json"))
    return {f"{each['case']}-{each['target']}": each["shared_with"] for each in records if each["shared_with"]}


DOUBLES = {"scale/double-cuda_sm90": "cuda_sm80", "scale/double-cuda_sm100": "cuda_sm80"}


def test_what_asks_nothing_of_the_device_is_shared(suite):
    suite.accept(*THREE, "--captures", "alone", "-k", "double").ends(0)
    assert shared(suite) == {}
    ran = suite.run(*THREE, "--fresh", "-k", "double").ends(0)
    ran.has("numerics passed: 3 emulated", "shared the capture of another target: 2 items; ")
    assert shared(suite) == DOUBLES


def test_a_case_that_asks_is_not(suite):
    """Only the case that asks nothing is shared. Whether the other one's numerics pass does not matter here."""
    suite.run(*THREE, "--checks", "numerics", "--fresh")
    assert shared(suite) == DOUBLES


def test_a_fault_of_one_target_is_found_there(suite):
    options = (*THREE, "--checks", "numerics", "--fresh", "-k", "double")
    ran = suite.run(*options, "-p", "wrong_on_sm90").ends(1)
    assert ran.outcomes()["failed"] == 1
    ran.has("numerics failed: scale/double-cuda_sm90:")
    assert shared(suite) == {}


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_a_fault_of_all_targets_fails_on_each(suite):
    ran = suite.run(*THREE, "--checks", "numerics", "-p", "wrong_everywhere", "-k", "double").ends(1)
    assert ran.outcomes()["failed"] == 3
    assert shared(suite) == {}


@pytest.mark.long("it runs several pytest processes, one after the other")
@pytest.mark.skipif(not NATIVE, reason="no target of the table is native here")
def test_a_cpu_row_with_the_same_code_shares_native_numerics(suite):
    """As cpu_amx does with cpu_avx512, on any processor."""
    suite.write("mine.toml", f'[cpu_mine]\nvariant_of = "{NATIVE}"\ncode_like = "{NATIVE}"\n')
    both = ("--targets", "mine.toml", "--target", f"{NATIVE},cpu_mine")
    options = (*both, "--checks", "numerics", "--fresh", "-k", "double")
    suite.run(*options).ends(0).has("numerics passed: 2 native")
    assert shared(suite) == {"scale/double-cpu_mine": NATIVE}
    assert suite.run(*options, "-p", "wrong_everywhere").ends(1).outcomes()["failed"] == 2
    assert shared(suite) == {}


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_the_next_run_reuses_shared_numerics(suite):
    options = (*THREE, "--checks", "numerics", "-k", "double")
    suite.run(*options, "--fresh").ends(0)
    suite.run(*options).ends(0).has("numerics passed before and were not run: 3 items")
    suite.run("--target", "cuda_sm90", *options[2:]).ends(0).has("passed before and were not run: 1 item")


def test_changed_code_of_a_shared_capture_has_artifacts(suite):
    suite.accept(*THREE, "-k", "double").ends(0)
    [file] = (suite.root / "ops/expected_code").rglob("double.txt")
    file.write_text(file.read_text().replace("2.0", "3.0"))
    ran = suite.run(*THREE, "-k", "double").ends(1)
    assert ran.outcomes()["failed"] == 3
    assert shared(suite) == DOUBLES
    ran.has_not("defect of conformance")
    folder = suite.root / ".conformance/runs/last/failures/scale/double-cuda_sm90"
    assert {path.name for path in folder.iterdir()} >= {
        "0_inference_graph.py",
        "0_inference_ir_pre_fusion.txt",
        "0_inference_ir_post_fusion.txt",
        "0_inference_output_code.py",
        "reproduce.py",
    }


def test_an_unknown_value(suite):
    suite.run("--captures", "some").ends(4).has("--conformance-captures", "'shared', 'alone'")
