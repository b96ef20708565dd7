"""Ini options: what a project sets for all of its runs, in each file that pytest reads."""

from __future__ import annotations

import json
import time

import pytest
from suites import CONFTEST, NATIVE, SM90
from suites import PreloadedSuite as Suite

from conformance.cases.special_values import GROUPS

SELECT = ("--collect-only", "-q")
IDS = [f"ops/test_scale.py::test_double[{dtype}-cuda_sm90]" for dtype in ("f32", "f16")]

FILES = {
    "pytest.ini": "[pytest]\nconformance_targets = cuda_sm90\nconformance_checks = numerics,code\n",
    "tox.ini": "[pytest]\nconformance_targets =\n  cuda_sm90\nconformance_checks = numerics code\n",
    "setup.cfg": "[tool:pytest]\nconformance_targets = cuda_sm90\nconformance_checks = numerics code\n",
    "pyproject.toml": '[tool.pytest]\nconformance_targets = ["cuda_sm90"]\nconformance_checks = ["numerics", "code"]\n',
    "pyproject.toml, ini_options": (
        '[tool.pytest.ini_options]\nconformance_targets = "cuda_sm90"\nconformance_checks = ["numerics", "code"]\n'
    ),
}

#: Two cases whose compiled results are wrong by many ulp. The second names its own factor.
OFF = f"""
import torch
from conformance import case, tensor

WITHOUT = {dict.fromkeys(GROUPS, "this test needs ordinary values alone")}

def off(x):
    return torch.exp(x) * (1 + 1e-5 * torch.compiler.is_compiling())

@case(x=tensor(20), numerics={{"without": WITHOUT}})
def test_off(x):
    return off(x)

@case(x=tensor(20), numerics={{"without": WITHOUT, "factor": 2}})
def test_own(x):
    return off(x)
"""

IDLE = """
[[failure]]
case = "scale/double-f32"
check = "requirements"
target = "cuda_sm90"
torch = ">=2.11"
error = "vectorised: wanted 'yes'"
reason = "idle"
issue = "not reported"
"""


def with_ini(suite: Suite, *lines: str) -> Suite:
    suite.write("pytest.ini", "\n".join(["[pytest]", *lines, ""]))
    return suite


@pytest.mark.parametrize("file", FILES)
def test_each_file(suite, file):
    (suite.root / "pytest.ini").unlink()
    suite.write(file.partition(",")[0], FILES[file])
    ran = suite.run("--collect-only", *(() if file != "tox.ini" else ("-v",))).ends(0)
    ran.has("conformance: conformance_targets = cuda_sm90; conformance_checks = numerics code")
    ran.has("double[f32-cuda_sm90]")
    ran.has_not("cuda_sm80]", "cpu_avx2]")


def test_the_command_line_wins(suite):
    with_ini(suite, "conformance_targets = cuda_sm80 cpu_avx2", "conformance_checks = numerics")
    assert suite.run(*SELECT, *SM90).lines("ops/") == IDS
    assert len(suite.run(*SELECT, "--device", "cuda").lines("ops/")) == 2
    assert suite.run(*SELECT, "-o", "conformance_targets=cuda_sm90").lines("ops/") == IDS
    suite.run("--device", "xpu").ends(4).has(
        "--device xpu and conformance_targets cuda_sm80,cpu_avx2 have no target in common; name others with --target"
    )
    suite.run(*SM90, "--checks", "requirements").ends(0).has_not("numerics passed")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("conformance_targets = cuda_sm1", "unknown target 'cuda_sm1' in conformance_targets; known are cpu_avx2"),
        ("conformance_targets = ,", "pytest.ini: conformance_targets is not a list of targets, such as"),
        ("conformance_checks = speed", "pytest.ini: conformance_checks is not a list of some of these: numerics"),
        ("conformance_drift = ignore", "pytest.ini: conformance_drift is not report or fail: 'ignore'"),
        ("conformance_strict_torch = 2", "pytest.ini: conformance_strict_torch is not a torch release, such as"),
        ("conformance_baseline_torch = 2.13", "pytest.ini: conformance_baseline_torch is conformance_strict_torch now"),
        ("conformance_factor = many", "pytest.ini: conformance_factor is not a number of 0 or more, such as 4"),
        ("conformance_factor = -1", "pytest.ini: conformance_factor is not a number of 0 or more, such as 4: -1.0"),
        ("conformance_item_timeout = -1", "pytest.ini: conformance_item_timeout is not a number of seconds, or 0"),
    ],
)
def test_wrong_values(suite, line, message):
    ran = with_ini(suite, line).run().ends(4)
    ran.has(message)
    ran.has_not("Traceback", "INTERNALERROR")


def test_wrong_types_in_toml(suite):
    (suite.root / "pytest.ini").unlink()
    suite.write("pyproject.toml", "[tool.pytest]\nconformance_strict_torch = 2.13\n")
    suite.run().ends(4).has("pyproject.toml: conformance_strict_torch is not a torch release, such as 2.13; in TOML")


def test_help_lists_them(suite):
    ran = suite.run("--help").ends(0)
    ran.has("conformance_targets", "conformance_factor (float)", "conformance_drift (string)")


@pytest.mark.long("it runs several pytest processes, one after the other")
@pytest.mark.skipif(not NATIVE, reason="this machine runs no cpu target: the numerics need one")
def test_factor(suite):
    suite.write("ops/test_scale.py", OFF)
    about = ("--target", NATIVE, "--checks", "numerics", "--fresh")
    assert suite.run(*about).ends(1).outcomes()["failed"] == 2
    with_ini(suite, "conformance_factor = 1000")
    ran = suite.run(*about, "--save-run", "wide").ends(1)
    ran.has("conformance: conformance_factor = 1000", "1 failed")
    ran.has_not("by the project's conformance_factor")  # the case that fails names its own
    description = json.loads((suite.root / ".conformance/runs/wide/run.json").read_text())
    assert description["factor"] == 1000
    with_ini(suite, "conformance_factor = 3")
    suite.run(*about).ends(1).has("the factor is 3, by the project's conformance_factor")


@pytest.mark.long("it runs several pytest processes, one after the other")
@pytest.mark.skipif(not NATIVE, reason="this machine runs no cpu target: the numerics need one")
def test_numerics_that_passed_with_another_factor_run_again(suite):
    about = ("--target", NATIVE, "--checks", "numerics", "ops/test_scale.py")
    suite.run(*about).ends(0)
    suite.run(*about).ends(0).has("numerics passed before and were not run: 2 items")
    another = 3 + time.time() % 1  # earlier runs of this test passed with other factors
    with_ini(suite, f"conformance_factor = {another}").run(*about).ends(0).has_not("numerics passed before")


def test_idle_known_failures(suite):
    suite.write("ops/known_failures/scale.toml", IDLE)
    about = (*SM90, "--checks", "requirements")
    suite.run(*about).ends(1).has("scale.toml, failure 1")
    with_ini(suite, "conformance_strict_torch = 1.0").run(*about).ends(0).has("scale.toml, failure 1")


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_drift(accepted):
    """Snapshots of another release only: what differs is drift."""
    for file in accepted.root.glob("ops/expected_code/**/*.txt"):
        text = file.read_text()
        file.write_text(text.replace("2.13", "2.11").replace("2.15", "2.11"))
    accepted.write("ops/test_scale.py", (accepted.root / "ops/test_scale.py").read_text().replace("x * 2", "x * 3"))
    about = (*SM90, "--checks", "code")
    accepted.run(*about).ends(0).has("drift: scale/double-f32-cuda_sm90")
    with_ini(accepted, "conformance_drift = fail").run(*about).ends(1)
    with_ini(accepted, "conformance_drift = report").run(*about, "--fail-on-drift").ends(1)


def test_item_timeout(suite):
    with_ini(suite, "conformance_item_timeout = 2")
    suite.write("ops/test_scale.py", HANGS)
    ran = suite.run(*SM90, "--checks", "requirements").ends(1)
    ran.has("time limit of 2 s exceeded (--item-timeout)")
    suite.run(*SM90, "--item-timeout", "3", "--checks", "requirements").ends(1).has("time limit of 3 s exceeded")


HANGS = """
import time
from conformance import case, tensor

def hang():
    time.sleep(60)

@case(x=tensor(20), prepare=hang)
def test_hang(x):
    return x * 2
"""


def test_a_conftest_that_is_not_the_top_one(tmp_path):
    suite = Suite(tmp_path, conftest="")
    suite.write("ops/deep/conftest.py", CONFTEST)
    suite.write("ops/deep/test_theirs.py", "def test_theirs(): pass\n")
    ran = suite.run().ends(2)
    ran.has("ops/deep/conftest.py names conformance.plugin in pytest_plugins, which pytest allows only in", "move that")
    ran.has_not("Defining 'pytest_plugins'")
