"""Other inputs in a project: found without options, left out with --quick or a reason, excused by their names."""

import pytest
from suites import NATIVE
from suites import PreloadedSuite as Suite

#: Compiled code is wrong for other strides.
CASE = """
import torch
from conformance import case, tensor

@case(x=tensor(5, 7){more})
def test_double(x):
    wrong = torch.compiler.is_compiling() and not x.is_contiguous()
    return x * 3 if wrong else x * 2
"""
KNOWN = f"""
[[failure]]
case = "layout/double"
check = "numerics"
target = ["{NATIVE}", "cuda_sm90"]
torch = ">=2.11"
problems = [
  {{ call = "x transposed", tensor = "output", rule = "values", changes = "number → number", off_by = 10 }},
]
reason = "planted"
issue = "not reported"
"""
NUMERICS = ("--target", f"{NATIVE},cuda_sm90", "--checks", "numerics")


@pytest.fixture
def project(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_layout.py", CASE.format(more=""))
    return suite


def test_found_without_options(project):
    ran = project.run(*NUMERICS).ends(1)
    ran.has("layout/double, other inputs (x transposed): compiled disagrees", "2 items = 2 failed")
    ran.has("[x transposed] output (float32): 35 of 35 elements are wrong", "--call 'x transposed'")


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_quick_leaves_them_out(project):
    project.run(*NUMERICS, "--quick").ends(0)
    project.run(*NUMERICS).ends(1)  # what passed with --quick did not compare them


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_a_reason_and_a_known_failure(project):
    project.write("known_failures/layout.toml", KNOWN)
    project.run(*NUMERICS).ends(0).has("2 items = 2 known failures")
    project.write("ops/test_layout.py", CASE.format(more=', numerics={"without": {"transposed": "why"}}'))
    (project.root / "known_failures/layout.toml").unlink()
    project.run(*NUMERICS).ends(0).has("2 items = 2 passed")
