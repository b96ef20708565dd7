"""Cases in one process with a project's own tests: these find the process as it was."""

import os

import pytest
from suites import NATIVE, SCALE, Suite

from conformance.devices import environment

OWN = """
import os
import warnings

import pytest
import torch

def test_no_device():
    assert not torch.cuda.is_available()
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(2).cuda()

def test_caches():
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") == {inductor!r}
    assert os.environ.get("TRITON_CACHE_DIR") == {triton!r}

def test_warnings_are_errors():
    with pytest.raises(UserWarning):
        warnings.warn("of the project")
"""

WARNING = """
import warnings
from conformance import case, tensor

def warn():
    warnings.warn("of the project's case")

@case(x=tensor(20), prepare=warn)
def test_warning(x):
    return x * 2
"""


@pytest.fixture
def suite(tmp_path):
    """A project whose tests run before and after its cases, and where a warning is an error."""
    suite = Suite(tmp_path)
    suite.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    suite.write("ops/test_scale.py", SCALE)
    return suite


@pytest.mark.long("a pytest process with its workers runs cases beside a project's own tests")
@pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed: pip install triton")
@pytest.mark.parametrize("caches", [(None, None), ("theirs", "triton")], ids=["unset", "set"])
def test_own_tests_find_the_process_as_it_was(suite, caches):
    own = OWN.format(inductor=caches[0], triton=caches[1])
    suite.write("ops/test_a.py", own)
    suite.write("ops/test_z.py", own)
    variables = dict(zip(("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"), caches, strict=True))
    ran = suite.run("--target", f"{NATIVE},cuda_sm90", "--checks", "numerics", env=os.environ | variables)
    ran.ends(0).has("4 items = 4 passed", "10 passed")


@pytest.mark.long("a pytest process with its workers runs cases beside a project's own tests")
def test_a_warning_of_the_projects_own_code_is_an_error(suite):
    suite.write("ops/test_warning.py", WARNING)
    ran = suite.run("--target", NATIVE, "--checks", "numerics", "ops/test_warning.py").ends(1)
    ran.has("UserWarning: of the project's case")
