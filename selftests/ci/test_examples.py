"""The examples in examples/: they run from the wheels, and a project copies them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from suites import REPOSITORY, environment

from conformance.devices.torch_releases import TESTED

LOSSES = REPOSITORY / "examples/losses"


def examples(*words, timeout=900):
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "ci/examples.py"), *words],
        env=environment({"PYTHONPATH": None}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize("name", ["losses", "operators", "passes"])
def test_an_example_makes_warnings_errors(name):
    """That it passes beside other plugins, ci/examples.py checks: a row of the matrix."""
    assert 'filterwarnings = ["error"' in (REPOSITORY / "examples" / name / "pyproject.toml").read_text()


@pytest.mark.long
def test_an_example_that_fails_is_named(distributions):
    ran = examples("losses", "--wheels", str(distributions.folder), "--", "--target", "cuda_sm9")
    assert ran.returncode == 1, ran.stdout
    assert ran.stdout.endswith("failed: losses\n"), ran.stdout


def test_unknown_example_names_those_that_there_are():
    ran = examples("loses")
    assert ran.returncode == 2
    assert "there is no example 'loses': there are losses, passes, operators, vendor" in ran.stdout


def test_workflow_of_the_example_tries_torches_of_the_table_and_accepts_nothing():
    text = (LOSSES / ".github/workflows/test.yml").read_text()
    pairs = re.findall(r'torch: "([\d.]+)", triton: "([\d.]+)"', text)
    assert len(pairs) == 2
    tritons = {each.name: each.triton for each in TESTED}
    for torch, triton in pairs:
        minor = torch.rpartition(".")[0]
        assert triton == tritons[minor]
        assert minor in (LOSSES / "tests/expected_code/losses/rounded.txt").read_text()
    assert not re.search(r"EXPECTTEST_ACCEPT\s*[=:]", text)
