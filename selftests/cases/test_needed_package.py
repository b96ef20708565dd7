"""The package that a case needs beside torch: what is said where it is missing, broken, or of another version."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys

import pytest
from suites import NATIVE, REPOSITORY, PreloadedSuite

from conformance import case, tensor
from conformance.cases import needed_package
from conformance.cases.case import CaseError
from conformance.cases.needed_package import MODEL_PACKAGES, other_version, package_problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: transformers and torchvision cannot be imported; the cases of each file of models can be declared without them.
WITHOUT_PACKAGES = """
import sys
for name in ("diffusers", "torchvision", "transformers"):
    sys.modules[name] = None  # an import raises ModuleNotFoundError
from conformance.cases.lookup import cases_below
from conformance.cases.roots import MODELS
print(sum(case.needs == "transformers" for case in cases_below([MODELS])))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package with this text."""

    def written(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        package_problem.cache_clear()
        return name

    yield written
    package_problem.cache_clear()


def test_installed(package):
    assert package_problem(package("whole_package", "")) == ""


def test_missing():
    assert package_problem("no_such_package") == (
        "the package no_such_package is not installed: pip install no_such_package"
    )


def test_package_of_models_is_missing(monkeypatch):
    monkeypatch.setitem(needed_package.MODEL_PACKAGES, "no_such_model", ">=1")
    package_problem.cache_clear()
    assert package_problem("no_such_model") == (
        "the package no_such_model is not installed: pip install 'conformance[models]'"
    )
    package_problem.cache_clear()


def test_broken(package):
    name = package("broken_package", "raise RuntimeError('operator torchvision::nms does not exist\\nmore')")
    assert package_problem(name) == (
        "the package broken_package is installed and does not load: RuntimeError: operator torchvision::nms does not "
        "exist; does it fit the installed torch? pip install broken_package"
    )


def test_what_the_package_imports_later_is_broken(package, monkeypatch):
    name = package("a_package", "")
    package("its_other_package", "raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.setitem(needed_package._IMPORTED_LATER, name, ("its_other_package", "no_such_package"))
    assert package_problem(name) == (
        "the package a_package imports its_other_package, which is installed and does not load: RuntimeError: operator "
        "torchvision::nms does not exist; install the its_other_package that fits the installed torch, or none: pip "
        "uninstall its_other_package"
    )


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ("5.24.0", ""),
        ("5.24.1+cpu", ""),
        ("5.25.0", "transformers 5.25.0 is installed, and what is stored is for transformers>=5.24,<5.25"),
    ],
)
def test_other_version(monkeypatch, installed, said):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: installed)
    monkeypatch.setitem(MODEL_PACKAGES, "transformers", ">=5.24,<5.25")
    assert other_version("transformers") == said


def test_any_version_of_another_package():
    assert other_version("pytest") == ""
    assert other_version("") == ""
    assert other_version("no_such_package") == ""


def test_extra_has_the_versions():
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {name: name + versions for name, versions in MODEL_PACKAGES.items()}
    assert extras["models"] == list(packages.values())
    assert extras["models-without-binaries"] == [packages["diffusers"], packages["transformers"]]


@pytest.mark.parametrize("needs", [None, "transformers>=5", ("transformers",)])
def test_wrong_declaration(needs):
    def test_x(x):
        return x

    with pytest.raises(CaseError, match=re.escape("it must be the name of one package, such as 'transformers'")):
        case(x=tensor(4), needs=needs)(test_x)


CASES = """
from conformance import case, tensor

@case(x=tensor(4), needs="no_such_package")
def test_without(x):
    return x + 1

@case(x=tensor(4), needs="pytest")
def test_with(x):
    return x + 1
"""


def test_item_is_skipped_with_the_reason(tmp_path):
    suite = PreloadedSuite(tmp_path)
    suite.write("test_needs.py", CASES)
    ran = suite.run("test_needs.py", "--target", NATIVE, "--checks", "requirements", "-rs").ends(0)
    ran.has("the package no_such_package is not installed: pip install no_such_package", "1 passed + 1 excluded")


def test_files_of_models_can_be_imported_without_their_packages():
    ran = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGES], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 1
