"""Names of options: long ones always, short ones where no other plugin and no conftest has them."""

from __future__ import annotations

import re

import pytest
from suites import CONFTEST, SCALE, SM90, Suite

from conformance.harness.configuration.pytest_options import OPTIONS

#: Collects two items of one target; `{}` is the prefix of our options.
SELECT = ("--collect-only", "-q")
IDS = [f"ops/test_scale.py::test_double[{dtype}-cuda_sm90]" for dtype in ("f32", "f16")]

ADDS = """
def pytest_addoption(parser):
    parser.addoption("--device", default="their default")
    parser.addoption("--quick", action="store_true")
"""

READS = """
import sys

def test_theirs(pytestconfig):
    assert pytestconfig.getoption("device") == "their value"
    assert pytestconfig.getoption("quick") is True
    assert pytestconfig.getoption("--conformance-device") is None
    assert pytestconfig.getoption("--conformance-quick") is False
    assert "torch" not in sys.modules
"""


@pytest.fixture
def suite(tmp_path):
    """Its runs import the plugin themselves: the names of its options depend on when that happens."""
    project = Suite(tmp_path)
    project.write("ops/test_scale.py", SCALE)
    return project


@pytest.mark.long("it runs several pytest processes, one after the other")
@pytest.mark.parametrize("given", [["--conformance-target=cuda_sm90"], [*SM90]])
def test_long_and_short_names(suite, given):
    assert suite.run(*SELECT, *given).lines("ops/") == IDS


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("given", [["--device", "their value"], ["--device=their value"]])
def test_an_option_of_a_conftest_is_theirs(tmp_path, given, workers):
    """The plugin is installed, and the project does not use it."""
    suite = Suite(tmp_path, conftest=ADDS)
    suite.write("test_theirs.py", READS)
    ran = suite.run("-n", workers, "--quick", *given).ends(0)
    ran.has("1 passed")
    ran.has_not("conformance:")


def test_options_of_a_conftest_that_uses_the_plugin(suite):
    suite.write("conftest.py", CONFTEST + ADDS)
    ran = suite.run("--device", "theirs", "--quick", "--conformance-device", "xpu", "--strict-run", "-k", "nosuch")
    ran.ends(5).has("; xpu deviceless")
    ran.has("conformance: --device, --quick belong to another plugin or a conftest; ours: --conformance-device, --conf")
    assert not suite.run(*SELECT).lines("conformance: --")


def test_messages_give_the_name_that_works(suite):
    suite.write("conftest.py", CONFTEST + ADDS)
    ran = suite.run("--conformance-device", "xpu", *SM90).ends(4)
    ran.has("--conformance-device xpu and --target cuda_sm90 have no target in common")


def test_an_installed_plugin_has_the_name(suite):
    """`-p` loads a module of the project as a plugin, after ours and before conftests."""
    suite.write("theirs.py", ADDS)
    ran = suite.run(*SELECT, "-p", "theirs", "--device", "any", *SM90, env={"PYTHONPATH": str(suite.root)})
    assert ran.lines("ops/") == IDS


def test_a_conftest_that_is_loaded_while_collecting(suite):
    """When the command line is parsed, the short name is still ours. Then their option has its default."""
    suite.write("ops/deep/conftest.py", ADDS)
    suite.write(
        "ops/deep/test_theirs.py", "def test_theirs(pytestconfig): assert pytestconfig.getoption('device')[0] == 't'"
    )
    suite.run("--device", "cuda", "-k", "theirs").ends(0).has("1 passed", "cuda deviceless")


def test_a_name_that_the_conftest_computes(suite):
    """Its text does not mention the name: the process was prepared for us, and is put back."""
    computed = ADDS.replace('"--device"', '"--" + "device"')
    suite.write("conftest.py", computed)
    suite.write("test_theirs.py", READS.replace('    assert pytestconfig.getoption("quick") is True\n', ""))
    suite.run("--device", "their value", "test_theirs.py").ends(0).has("1 passed")


@pytest.mark.parametrize("ini", ["addopts = --target cuda_sm90", "addopts = --target=cuda_sm90"])
def test_in_the_ini_file(suite, ini):
    suite.write("pytest.ini", f"[pytest]\n{ini}\n")
    assert suite.run(*SELECT).lines("ops/") == IDS


def test_in_the_environment_and_in_a_file(suite):
    assert suite.run(*SELECT, env={"PYTEST_ADDOPTS": "--target cuda_sm90"}).lines("ops/") == IDS
    suite.write("arguments.txt", "--target\ncuda_sm90\n")
    assert suite.run(*SELECT, "@arguments.txt").lines("ops/") == IDS


def test_without_installed_plugins(suite):
    """Then the conftest loads the plugin, when pytest has asked for the conftests already."""
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    assert suite.run(*SELECT, *SM90, env=env).lines("ops/") == IDS
    suite.write("conftest.py", CONFTEST + ADDS)
    ran = suite.run("--device", "theirs", "--conformance-device", "xpu", *SM90, env=env).ends(4)
    ran.has("--conformance-device xpu and --target cuda_sm90 have no target in common")


def test_switched_off(tmp_path):
    suite = Suite(tmp_path, conftest="")
    suite.write("test_theirs.py", "def test_theirs(): pass\n")
    suite.run("-p", "no:conformance.plugin").ends(0).has("1 passed")
    suite.run("-p", "no:conformance.plugin", *SM90).ends(4).has("unrecognized arguments: --target")


def test_help_has_a_group_for_each_reader(suite):
    text = suite.run("--help").ends(0).text
    for title, option in {
        "test the code and": "device=LIST",
        "for compiler engineers": "affected-by=EDIT",
        "for maintainers and CI": "verify-deviceless",
    }.items():
        assert f"--conformance-{option}" in text.partition(f"\nconformance: {title}")[2].partition("\n\n")[0]
    for name in OPTIONS:
        assert len(re.findall(rf"^  --conformance-{name}\b(?!-)", text, flags=re.MULTILINE)) == 1


def test_arguments_that_are_too_long_for_a_path(suite):
    suite.run("-k", " or ".join(["nosuch"] * 100)).ends(5)
