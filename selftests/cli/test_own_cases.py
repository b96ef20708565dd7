"""Commands in a project of another author: its own cases come first, under each name that people have for them."""

from __future__ import annotations

import pytest

from conformance.cases.lookup import UnknownCaseError, find_case
from conformance.cli.main import main
from conformance.devices.targets import targets

HFLIP = "flip/hflip-224-u8-contiguous"
LOSS = """
from conformance import case, tensor
from mylib.loss import mse

@case(x=tensor(20), y=tensor(20), dtype=["f32", "f64"])
def test_mse(x, y):
    return mse(x, y)
"""
FLIP = """
from conformance import case, image

@case(x=image(3, size=[224], dtype=["u8"], layout=["contiguous"]))
def test_hflip(x):
    return x.flip(-2)
"""
FILES = {
    "pytest.ini": "[pytest]\ntestpaths = tests\npythonpath = src\n",
    "src/mylib/__init__.py": "",
    "src/mylib/loss.py": "def mse(x, y):\n    return ((x - y) ** 2).mean()\n",
    "tests/test_loss.py": LOSS,
    "tests/deep/test_flip.py": FLIP,
    "tests/test_units.py": "raise RuntimeError('unit tests are not imported')\n",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("folder", ["", "tests", "tests/deep", "src/mylib"])
@pytest.mark.parametrize(
    "name",
    [
        "loss/mse-f64",
        "loss/mse-f64-cpu_avx2",
        "mse-f64",
        "test_mse[f64-cpu_avx2]",
        "tests/test_loss.py::test_mse[f64-cpu_avx2]",  # relative to pytest's rootdir, from each folder
        "tests/test_loss.py::loss/mse-f64",
    ],
)
def test_names_of_a_case(project, monkeypatch, folder, name):
    monkeypatch.chdir(project / folder)
    case, target = find_case(name, list(targets()))
    assert (case.id, case.file) == ("loss/mse-f64", project / "tests/test_loss.py")
    assert target == ("cpu_avx2" if "cpu_avx2" in name else "")


def test_paths_from_a_folder_below(project, monkeypatch):
    monkeypatch.chdir(project / "tests/deep")
    assert find_case("../test_loss.py::test_mse[f32]", [])[0].id == "loss/mse-f32"
    assert find_case("test_flip.py", [])[0].file == project / "tests/deep/test_flip.py"
    with pytest.raises(
        UnknownCaseError, match=r"\.\./test_loss\.py has 2 cases; write one of \.\./test_loss\.py::loss"
    ):
        find_case("../test_loss.py", [])


def test_cases_of_the_package_stay_in_reach(project):
    assert find_case("flip/vflip-224-u8-contiguous", [])[0].file.parent.name == "ops"


def test_the_projects_case_wins_and_a_line_says_so(project, capsys):
    assert main(["show", HFLIP, "--target", "cpu_avx2", "--facts"]) == 0
    printed = capsys.readouterr()
    assert "vectorised    yes" in printed.out  # flip(-2)
    says = f"{HFLIP} is the case of {project}/tests/deep/test_flip.py; conformance has one with the same id: /"
    assert printed.err.startswith(says)
    named = printed.err.strip().rpartition(" ")[2]
    assert find_case(named, [])[0].file.parent.name == "ops"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "loss/mes-f32"], "there is no case 'loss/mes-f32'; nearest: loss/mse-f32, loss/mse-f64, "),
        (["show", "flip/vflp-224-u8"], "there is no case 'flip/vflp-224-u8'; nearest: flip/vflip-"),
        (["show", "tests/test_loss.py::test_mes"], "there is no case 'mes' in tests/test_loss.py; nearest: loss/mse-"),
        (["list", "mes-f32"], "no case matches 'mes-f32'; nearest: loss/mse-f32"),
    ],
)
def test_unknown_names(project, capsys, words, message):
    assert main([*words, "--target", "cpu_avx2"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    if "::" not in words[1]:
        assert f"; looked in {project} (2 files of cases) and in the cases of conformance" in err


def listed(capsys, *words):
    status = main(["list", *words])
    return status, [line.split()[0] for line in capsys.readouterr().out.splitlines()]


def test_list(project, capsys, monkeypatch):
    own = ["loss/mse-f32", "loss/mse-f64", HFLIP]
    monkeypatch.chdir(project / "src")
    assert listed(capsys) == (0, own)
    assert listed(capsys, "hflip") == (0, [HFLIP])
    assert len(listed(capsys, "hflip", "--package")[1]) > 1
    assert len(listed(capsys, "--package")[1]) > 1000
    assert all(name.startswith("flip/vflip") for name in listed(capsys, "vflip")[1])  # only the package has it


def test_a_file_that_cannot_be_imported_costs_only_its_own_cases(project, capsys):
    (project / "tests/test_broken.py").write_text("from conformance import nothing\n")
    assert main(["list"]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 3
    assert printed.err.startswith(f"not listed: {project}/tests/test_broken.py cannot be imported: ImportError: ")
    assert find_case("mse-f64", [])[0].id == "loss/mse-f64"
    assert main(["show", "broken/one", "--target", "cpu_avx2"]) == 2
    assert "test_broken.py cannot be imported" in capsys.readouterr().err


def test_two_files_with_the_same_id(project):
    (project / "tests/other").mkdir()
    (project / "tests/other/test_loss.py").write_text(LOSS)
    with pytest.raises(
        UnknownCaseError, match=r"more than one case; write one of /.*::loss/mse-f32, /.*::loss/mse-f32"
    ):
        find_case("loss/mse-f32", [])


@pytest.fixture
def project_with_targets(project):
    (project / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\npythonpath = src\nconformance_targets = cpu_avx512 cpu_avx2\n"
    )
    return project


def test_show_and_compare_take_the_targets_of_the_ini_file(project_with_targets, capsys):
    assert main(["show", "loss/mse-f32", "--facts"]) == 0
    shown = capsys.readouterr()
    assert "# loss/mse-f32 for cpu_avx512" in shown.out
    assert "for cpu_avx512, the first of conformance_targets" in shown.err
    assert main(["show", "loss/mse-f32-cpu_avx2", "--facts"]) == 0
    shown = capsys.readouterr()
    assert "# loss/mse-f32 for cpu_avx2" in shown.out
    assert shown.err == ""
    assert main(["compare", "loss/mse-f32", "--facts"]) == 0
    out = capsys.readouterr().out
    assert "# loss/mse-f32 for cpu_avx512: " in out
    assert "# loss/mse-f32 for cpu_avx2: " in out
    assert main(["compare", "loss/mse-f32", "loss/mse-f64-cpu_avx2", "--facts"]) == 0
    out = capsys.readouterr().out
    assert "# loss/mse-f32 for cpu_avx512: " in out
    assert "# loss/mse-f64 for cpu_avx2: " in out


def test_a_wrong_target_of_the_ini_file(project_with_targets, capsys):
    ini = project_with_targets / "pytest.ini"
    ini.write_text(ini.read_text().replace("cpu_avx512", "cpu_avx3"))
    assert main(["show", "loss/mse-f32"]) == 2
    assert "cpu_avx3" in capsys.readouterr().err


ENTRY = """
[[failure]]
case = "loss/mse-f32"
check = "compile"
target = "cpu_avx2"
torch = ">=2.11"
error = "RuntimeError: the mean"
reason = "{reason}"
issue = "not reported"
"""


def test_bugs_lists_those_of_the_project_first(project, capsys):
    for folder, reason in (("tests/known_failures", "the mean is refused"), ("laid_over", "the device is refused")):
        (project / folder).mkdir()
        (project / folder / "loss.toml").write_text(ENTRY.format(reason=reason))
    assert main(["list", "--bugs", "--known-failures", "laid_over"]) == 0
    out = capsys.readouterr().out
    title = "# Known bugs of tests/known_failures and laid_over\n"
    assert out.startswith(title)
    assert out.index("### The mean is refused") < out.index("### The device is refused") < out.index("\n# Known bugs\n")
    assert main(["list", "--bugs", "--package"]) == 0
    package = capsys.readouterr().out
    assert package.startswith("# Known bugs\n")
    assert out.endswith(package)
    assert "The mean is refused" not in package
    assert main(["list", "--bugs", "tests/known_failures", "--package"]) == 2
    assert "leave out tests/known_failures, or --package" in capsys.readouterr().err
