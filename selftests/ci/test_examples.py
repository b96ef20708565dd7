"""The examples in examples/: they run from the wheels, and a project copies them."""

from __future__ import annotations

import importlib
import json
import re
import shutil
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


@pytest.mark.long("it builds the wheels and installs an example from them")
def test_an_example_that_fails_is_named(distributions):
    ran = examples("losses", "--wheels", str(distributions.folder), "--", "--target", "cuda_sm9")
    assert ran.returncode == 1, ran.stdout
    assert ran.stdout.endswith("failed: losses\n"), ran.stdout


@pytest.mark.parametrize("name", ["losses", "operators", "passes"])
def test_what_a_readme_promises_is_compared_with_the_run(name, monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "ci"))
    module = importlib.import_module("examples")
    promise = module.promised((REPOSITORY / "examples" / name / "README.md").read_text())
    assert any(re.match(r"\d+ items = \d+ passed", each) for each in promise)
    assert module.missing(promise, [f"== {each} ==" for each in promise]) == []
    assert module.missing(promise, [f"{each} + 1 failed" for each in promise]) == promise
    assert module.missing(["4 passed"], ["14 passed"]) == ["4 passed"]


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


@pytest.mark.long("it builds the wheels and installs an example from them")
@pytest.mark.parametrize("source", ["an index", "wheels", "a checkout"])
def test_workflow_of_the_example_installs_from(source, tmp_path, distributions):
    """The command of the workflow, where pip finds the package so. torch and what else is installed are left out."""
    [command] = re.findall(r"- run: (pip install .*)", (LOSSES / ".github/workflows/test.yml").read_text())
    project = tmp_path / "losses"
    shutil.copytree(LOSSES, project, ignore=shutil.ignore_patterns(".conformance", "*.egg-info"))
    (project / "wheels").mkdir()
    for wheel in distributions.parts:
        shutil.copy2(wheel, project / "wheels")
    variable = {"an index": "", "wheels": "wheels/conformance*.whl", "a checkout": str(REPOSITORY)}[source]
    own = command.removeprefix("pip install ").partition("}} ")[2].partition("}} ")[2]
    report = ["--dry-run", "--no-deps", "--ignore-installed", "--no-build-isolation", "--no-index", "--report", "-"]
    words = f"{sys.executable} -m pip -q --disable-pip-version-check install {' '.join(report)} {own}"
    ran = subprocess.run(
        ["bash", "-c", words],
        cwd=project,
        env=environment({"PYTHONPATH": None, "CONFORMANCE": variable}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    installed = {each["metadata"]["name"] for each in json.loads(ran.stdout)["install"]}
    ours = {f"conformance{each}" for each in ("", "-generator", "-lab", "-page")}
    expected = {"an index": set(), "wheels": ours, "a checkout": {"conformance"}}[source]
    assert installed == {"losses"} | expected
    assert 'test = ["conformance' in (project / "pyproject.toml").read_text(), "an index gives what the extra names"
