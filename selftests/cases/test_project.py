"""The project of a folder: its top folder, and its files of cases."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from conformance.cases import project as project_module
from conformance.cases.project import project_of
from conformance.cases.roots import OPS

CASES = "from conformance import case\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text=CASES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def names(tmp_path, **options):
    project = project_of(tmp_path)
    return [str(file.relative_to(project.root)) for file in project.case_files(**options).files]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest.ini", ""),
        ("pytest.toml", '[pytest]\ntestpaths = ["tests"]\n'),
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = "tests"\n'),
        ("pyproject.toml", '[tool.pytest]\ntestpaths = ["tests"]\n'),
        ("tox.ini", "[pytest]\ntestpaths = tests\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths =\n    tests\n"),
    ],
)
def test_root_is_that_of_pytest(tmp_path, write, file, text):
    """Asked from a folder of the project, as pytest does it: an ini file of another tool does not count."""
    write(f"top/{file}", text)
    write("top/tests/deep/test_a.py", "def test_a(pytestconfig):\n    print('ROOT', pytestconfig.rootpath)\n")
    write("top/tests/pyproject.toml", "[tool.other]\na = 1\n")
    write("top/tests/tox.ini", "[tox]\n")
    deep = tmp_path / "top/tests/deep"
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:conformance.plugin", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=deep, capture_output=True, text=True, check=True)
    assert f"ROOT {project_of(deep).root}\n" in ran.stdout
    assert project_of(deep).tests == ((tmp_path / "top/tests",) if text else ())


def test_without_an_ini_file(tmp_path, write):
    (tmp_path / "top/.git").mkdir(parents=True)
    write("top/lib/tests/test_a.py")
    assert project_of(tmp_path / "top/lib/tests").root == tmp_path / "top"
    assert names(tmp_path / "top/lib") == ["lib/tests/test_a.py"]


def test_results_of_a_run_in_a_folder_further_up_hide_no_project(tmp_path, write):
    (tmp_path / ".conformance").mkdir()
    (tmp_path / "top/.git").mkdir(parents=True)
    write("top/tests/test_a.py")
    assert project_of(tmp_path / "top/tests").root == tmp_path / "top"


@pytest.mark.parametrize("mark", [".conformance", ".git"])
def test_home_and_the_folder_for_temporary_files_are_no_project(tmp_path, monkeypatch, write, mark):
    for name in ("home", "temporary", "other"):
        (tmp_path / name / mark).mkdir(parents=True)
        write(f"{name}/mine/test_a.py")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for name in ("home", "temporary"):
        assert project_of(tmp_path / name / "mine").root == tmp_path / name / "mine"
    assert project_of(tmp_path / "other/mine").root == tmp_path / "other"


def test_options_of_the_ini_file(tmp_path, write):
    options = "testpaths = tests other/t*\npython_files = check_*.py\nnorecursedirs = slow"
    write("pytest.ini", f"[pytest]\n{options}\npythonpath = src\n")
    for name in ("tests/check_a.py", "tests/test_a.py", "tests/slow/check_b.py", "other/t1/check_c.py", "check_d.py"):
        write(name)
    assert names(tmp_path) == ["tests/check_a.py", "other/t1/check_c.py"]
    assert project_of(tmp_path).import_folders == (tmp_path / "src",)
    assert names(tmp_path, stems=["check_c"]) == ["other/t1/check_c.py"]


def test_a_folder_beside_those_of_testpaths(tmp_path, write):
    write("pytest.ini", "[pytest]\ntestpaths = tests\n")
    write("tests/test_a.py")
    write("mine/test_b.py")
    assert names(tmp_path / "mine") == ["tests/test_a.py", "mine/test_b.py"]


def test_what_is_no_file_of_cases(tmp_path, write):
    write("pytest.ini", "")
    write("test_a.py")
    write("passed_on/b_test.py", "from mine import case\n\n@case()\ndef test_b(): ...\n")
    write("test_other.py", "def test_other(): ...\n")
    write("helper.py")
    write("env/pyvenv.cfg", "")
    write("env/lib/test_c.py")
    write(".hidden/test_d.py")
    write("build/test_e.py")
    assert names(tmp_path) == ["test_a.py", "passed_on/b_test.py"]


def test_a_huge_folder_is_not_walked_to_its_end(tmp_path, write, monkeypatch):
    monkeypatch.setattr(project_module, "MAX_FOLDERS", 3)
    write("pytest.ini", "")
    for number in range(5):
        write(f"d{number}/test_a{number}.py")
    found = project_of(tmp_path).case_files()
    assert (found.cut_off, len(found.files)) == (True, 2)  # the top folder is one of the three
    assert not project_of(tmp_path).case_files(below=tmp_path).cut_off  # a folder that the user named


def test_an_ini_file_that_cannot_be_read(tmp_path, write):
    write("pyproject.toml", "[tool.pytest\n")
    write("test_a.py")
    assert project_of(tmp_path).root == tmp_path
    assert names(tmp_path) == ["test_a.py"]


def test_folders_for_imports_are_those_of_pytest(tmp_path, write):
    write("pytest.ini", "[pytest]\npythonpath = src\n")
    write("conftest.py", "")
    write("tests/__init__.py", "")
    file = write("tests/test_a.py")
    project = project_of(tmp_path)
    assert project.import_folders_of(file) == [tmp_path / "src", tmp_path]
    assert project.import_folders_of(write("other/test_b.py")) == [tmp_path / "src", tmp_path, tmp_path / "other"]


def test_this_checkout():
    project = project_of(OPS)
    assert (project.root, project.tests) == (OPS.parent.parent, (OPS,))
    assert set(project.case_files().files) <= set(OPS.glob("test_*.py"))


@pytest.mark.parametrize(
    ("testpaths", "expected"),
    [
        (".", ["test_top.py", "tests/test_a.py"]),
        ("./tests", ["tests/test_a.py"]),
        ("./tests/", ["tests/test_a.py"]),
        ("tests/../tests", ["tests/test_a.py"]),
        ("tests/test_a.py", ["tests/test_a.py"]),
        ("te*s", ["tests/test_a.py"]),
        ("**", ["test_top.py", "tests/test_a.py"]),
        ("**/test_*.py", ["test_top.py", "tests/test_a.py"]),
        ("ROOT/tests", ["tests/test_a.py"]),
        ("ROOT/t*", ["test_top.py", "tests/test_a.py"]),
        ("../beside", ["../beside/test_c.py"]),
        ("..", ["../beside/test_c.py", "test_top.py", "tests/test_a.py"]),
        ("missing", ["test_top.py", "tests/test_a.py"]),
        ("tests missing", ["tests/test_a.py"]),
        ("'tests", ["test_top.py", "tests/test_a.py"]),
        ("", ["test_top.py", "tests/test_a.py"]),
    ],
)
@pytest.mark.parametrize("form", ["pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "pytest.toml"])
def test_each_form_of_testpaths(tmp_path, write, form, testpaths, expected):
    for name in ("top/test_top.py", "top/tests/test_a.py", "beside/test_c.py"):
        write(name)
    root = tmp_path / "top"
    testpaths = testpaths.replace("ROOT", str(root))
    head = {"setup.cfg": "[tool:pytest]", "pyproject.toml": "[tool.pytest]"}.get(form, "[pytest]")
    value = f"{testpaths.split()}" if form.endswith("toml") else testpaths
    write(f"top/{form}", f"{head}\ntestpaths = {value}\n")
    found = [os.path.relpath(file, root) for file in project_of(root).case_files().files]
    assert sorted(found) == expected


@pytest.mark.parametrize("value", ["3", "true", "{a = 1}"])
def test_a_value_of_testpaths_that_pytest_refuses_is_as_none(tmp_path, write, value):
    write("pyproject.toml", f"[tool.pytest]\ntestpaths = {value}\n")
    write("test_a.py")
    assert names(tmp_path) == ["test_a.py"]
