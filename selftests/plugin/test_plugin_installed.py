"""The plugin from an installed wheel, in the folder of another project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from suites import SCALE, SM90, Suite, environment, further_table

from conformance import documentation
from conformance.devices.torch_releases import CHANGES

ONE = (*SM90, "--checks", "requirements")

FOREIGN = """
def test_nothing(pytestconfig):
    pass
"""

SAYS = """
import sys

def pytest_sessionfinish():
    sys.__stdout__.write(f"torch imported: {'torch' in sys.modules}\\n")
"""


@pytest.mark.long("it builds both wheels and runs pytest with what they install")
def test_documentation_is_in_the_wheels(tmp_path, installed, installed_suite):
    """Pages that are generated from the cases are in the wheel of the cases, all others in that of the harness."""

    def printed(env, *words):
        command = [sys.executable, "-m", "conformance", "docs", *words]
        ran = subprocess.run(command, cwd=tmp_path, env=environment(env), capture_output=True, text=True, check=True)
        return ran.stdout

    def listed(env):
        return {line.split()[0] for line in printed(env).splitlines()}

    assert listed(installed_suite) == set(documentation.pages())
    of_cases = {"known-bugs", "kinds", "flip", "missed-optimisations", *CHANGES}
    assert listed(installed_suite) - listed(installed) == of_cases
    assert printed(installed, "numerics#seeds").startswith("## Seeds\n")
    assert printed(installed, "readme") == documentation.page_text("readme")  # as it is printed here


@pytest.mark.long("it builds both wheels and runs pytest with what they install")
def test_by_entry_point(tmp_path, installed):
    suite = Suite(tmp_path, conftest="")
    suite.write("ops/test_scale.py", SCALE)
    ran, found = suite.checks(*ONE, env=installed)
    ran.ends(0).has("conformance: torch")
    assert [outcome for *_, outcome, _ in found] == ["passed"] * 2


@pytest.mark.long("it builds both wheels and runs pytest with what they install")
def test_by_conftest(tmp_path, installed):
    """A conftest may name the plugin although pytest has loaded it by its entry point."""
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", SCALE)
    suite.accept(*SM90, "-n", "2", env=installed).ends(0).has("snapshots: 2 new, 0 changed, 0 unchanged")
    assert list(suite.stored()) == ["scale/double-f16.txt", "scale/double-f32.txt"]


@pytest.mark.long("it builds both wheels and runs pytest with what they install")
def test_found_by_its_cases_alone(tmp_path, installed):
    """Without an option or a conftest, the first collected case begins the run, also in workers."""
    suite = Suite(tmp_path, conftest="")
    suite.write("ops/test_scale.py", SCALE)
    ran = suite.run("-n", "2", "-k", "cuda_sm90", env=installed | {"EXPECTTEST_ACCEPT": "1"}).ends(0)
    ran.has("2 items: 2 deviceless", "snapshots: 2 new, 0 changed, 0 unchanged")


@pytest.mark.parametrize("workers", [0, 2])
def test_costs_others_nothing(tmp_path, installed, workers):
    suite = Suite(tmp_path, conftest=SAYS)
    suite.write("test_theirs.py", FOREIGN)
    ran = suite.run("-n", str(workers), env=installed | {"EXPECTTEST_ACCEPT": "theirs", "CI": "true"}).ends(0)
    ran.has("torch imported: False")
    ran.has_not("conformance:", "torch imported: True")
    assert not (tmp_path / ".conformance").exists()


NAMES = """
import sys

def pytest_sessionfinish():
    names = sorted(name for name in sys.modules if name.partition(".")[0] in ("conformance", "numpy", "rich", "torch"))
    sys.__stdout__.write(f"imported: {' '.join(names)}\\n")
"""


def test_imports_little_into_other_projects(tmp_path, installed):
    suite = Suite(tmp_path, conftest=NAMES)
    suite.write("test_theirs.py", FOREIGN)
    configuration = "conformance.harness.configuration"
    names = ["conformance", "conformance.cases", "conformance.cases.roots"]
    names += ["conformance.distributions", "conformance.errors", "conformance.harness", configuration]
    modules = ("ini_options", "initial_conftests", "pytest_options", "short_names")
    names += [f"{configuration}.{name}" for name in modules]
    names += ["conformance.plugin", "conformance.settings"]
    suite.run(env=installed).ends(0).has(f"imported: {' '.join(names)}\n")


def files(folder):
    """Path → time and content of every file. Python writes __pycache__ for whatever it imports."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def command(suite, installed, *words):
    line = [sys.executable, "-m", "conformance", *words]
    done = subprocess.run(line, cwd=suite.root, env=environment(installed), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long("it builds both wheels and runs pytest with what they install")
def test_nothing_is_written_into_the_installed_package(tmp_path, installed_suite):
    """The package's cases with a vendor's target, store and known failures: all that is written is the vendor's."""
    suite, package = Suite(tmp_path, conftest=""), Path(installed_suite["PYTHONPATH"])
    before = files(package)
    suite.write("mine.toml", further_table())
    suite.write("mine.txt", "flip/hflip-224-u8-contiguous\n")
    cases = str(package / "conformance/ops")
    one = ("--pyargs", "conformance.ops.test_flip", "--target", "cuda_mine", "--subset", "mine.txt")
    ran = suite.accept(*one, "--targets", "mine.toml", env=installed_suite).ends(4)
    ran.has("belongs to the installed package conformance, and nothing is written there: give --store DIR")
    suite.write("pytest.ini", "[pytest]\nconformance_target_tables = mine.toml\nconformance_store = vendor\n")
    suite.accept(*one, env=installed_suite).ends(0).has("snapshots: 1 new, 0 changed, 0 unchanged")
    suite.run(*one, env=installed_suite).ends(0).has(f"code: 1 as stored in {tmp_path}/vendor")
    stored = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("expected_code/**/*.txt")]
    assert stored == ["vendor/expected_code/flip/hflip-224-u8-contiguous.txt"]
    status, text = command(suite, installed_suite, "review", "last", "--list")
    assert (status, text.splitlines()[0]) == (0, "nothing differs: 1 text unchanged")
    suite.write("pytest.ini", "[pytest]\n")
    status, text = command(suite, installed_suite, "prune", "--yes", "--torch", "2.13", cases)
    assert (status, "nothing is written there: give --store DIR" in text) == (2, True), text
    assert command(suite, installed_suite, "prune", "--yes", "--torch", "2.13", "--store", "vendor")[0] == 0
    assert list(tmp_path.rglob("expected_code/**/*.txt")) == []
    assert files(package) == before
