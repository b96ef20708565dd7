"""The examples in examples/: they run from the wheels, and a project copies them."""

from __future__ import annotations

import re
import subprocess
import sys

from suites import FOREIGN, NATIVE, REPOSITORY, environment

from conformance.cli.diagnosis import TRITON

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


def test_losses_pass_from_the_wheel_beside_other_plugins(distributions):
    """With randomly, cov, timeout, xdist and rerunfailures in use, and warnings as errors. CI runs all targets."""
    ran = passes_beside_other_plugins("losses", distributions)
    assert re.search(r"^(\d+) items = \d+ passed \+ 1 known failures?$", ran.stdout, re.MULTILINE), ran.stdout
    assert "losses/focal.py" in ran.stdout  # the table of coverage


def test_contracts_of_a_pass_hold_from_the_wheel_beside_other_plugins(distributions):
    """In ordinary tests, on a CPU and on GPUs that are not here, and in cases of one target."""
    ran = passes_beside_other_plugins("passes", distributions)
    assert re.search(r"^3 items = 3 passed$", ran.stdout, re.MULTILINE), ran.stdout
    assert re.search(r"^=+ 11 passed", ran.stdout, re.MULTILINE), ran.stdout
    assert "engine/passes.py" in ran.stdout


def passes_beside_other_plugins(name, distributions):
    ran = examples(name, "--wheels", str(distributions.folder), "--", "--target", NATIVE or FOREIGN)
    assert ran.returncode == 0, ran.stdout
    [plugins] = re.findall(r"^plugins: (.*)$", ran.stdout, re.MULTILINE)
    for each in ("randomly", "cov", "timeout", "rerunfailures", "xdist"):
        assert f"{each}-" in plugins
    assert "Using --randomly-seed=" in ran.stdout
    assert 'filterwarnings = ["error"' in (REPOSITORY / "examples" / name / "pyproject.toml").read_text()
    return ran


def test_an_example_that_fails_is_named(distributions):
    ran = examples("losses", "--wheels", str(distributions.folder), "--", "--target", "cuda_sm9")
    assert ran.returncode == 1, ran.stdout
    assert ran.stdout.endswith("failed: losses\n"), ran.stdout


def test_unknown_example_names_those_that_there_are():
    ran = examples("loses")
    assert ran.returncode == 2
    assert "there is no example 'loses': there are losses, passes, vendor" in ran.stdout


def test_workflow_of_the_example_tries_torches_of_the_table_and_accepts_nothing():
    text = (LOSSES / ".github/workflows/test.yml").read_text()
    pairs = re.findall(r'torch: "([\d.]+)", triton: "([\d.]+)"', text)
    assert len(pairs) == 2
    for torch, triton in pairs:
        minor = torch.rpartition(".")[0]
        assert triton == TRITON[tuple(map(int, minor.split(".")))]
        assert minor in (LOSSES / "tests/expected_code/losses/rounded.txt").read_text()
    assert not re.search(r"EXPECTTEST_ACCEPT\s*[=:]", text)
