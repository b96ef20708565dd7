"""Commands with targets, snapshots and subsets of a user's own."""

from __future__ import annotations

import pytest
from suites import further_table

from conformance.cases.project import project_of
from conformance.cli.main import main
from conformance.devices.targets import targets, use_tables
from conformance.settings import Overlay
from conformance.storage import installed
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Store

CASES = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]))
def test_double(x):
    return x * 2
"""
F32 = "scale/double-f32"


def text(name):
    return f"kernels     1: {name}\n\n--- inference\ndef call(args):\n    return 1\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a stored text, a folder over it, a table and a file that names cases."""
    monkeypatch.chdir(tmp_path)
    for name, content in (("pytest.ini", "[pytest]\n"), ("ops/test_scale.py", CASES), ("mine.toml", further_table())):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "mine.txt").write_text("*-f16\n")
    Store(tmp_path / "ops/expected_code").merge({F32: {("2.13", "cuda_sm90"): text("below")}})
    Store(tmp_path / "over/expected_code").merge({F32: {("2.13", "cuda_mine"): text("over")}})
    yield tmp_path
    use_tables([])


def printed(capsys, *words, status=0):
    assert main(words) == status
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_list(project, capsys):
    options = ("--targets", "mine.toml", "--store", "over", "--subset", "mine.txt")
    out, err = printed(capsys, "list", "ops", *options, "--target", "cuda_mine")
    assert out == "ops/test_scale.py::test_double[f16-cuda_mine]\n"
    assert f"1 in {project}/over" in err
    assert f"cuda_mine in {project}/mine.toml" in err
    _, err = printed(capsys, "list", "ops", "--target", "cuda_mine", status=2)
    assert "unknown target 'cuda_mine'" in err, "a later command has its own tables"


def test_ini_options(project, capsys):
    (project / "pytest.ini").write_text("[pytest]\nconformance_target_tables = mine.toml\n")
    project_of.__globals__["_project"].cache_clear()
    out, _ = printed(capsys, "list", "ops", "--target", "cuda_mine")
    assert out.splitlines()[0] == "ops/test_scale.py::test_double[f32-cuda_mine]"


def record(target, new):
    return ItemRecord(F32, target, "deviceless", "2.13.0", "ops/expected_code", text=text(new))


@pytest.mark.parametrize("given", [True, False])
def test_accept_writes_into_the_folder_of_the_command_or_of_the_run(project, capsys, given):
    run = Run(project / "run")
    overlay = Overlay((str(project / "mine.toml"),), "" if given else str(project / "over"))
    run.begin({"torch": "2.13.0", "overlay": overlay.to_json()})
    for item in (record("cuda_sm90", "changed"), record("cuda_mine", "over")):
        run.write_item(item)
    options = ("--store", "over") if given else ()
    out, _ = printed(capsys, "accept", "run", "ops", *options)
    assert out == "snapshots: 0 new, 1 changed, 1 unchanged\n"
    below, over = (Store(project / folder / "expected_code").read(F32) for folder in ("ops", "over"))
    assert below.texts == {("2.13", "cuda_sm90"): text("below")}
    assert over.texts == {("2.13", "cuda_mine"): text("over"), ("2.13", "cuda_sm90"): text("changed")}


def test_drop_and_prune_change_the_folder_alone(project, capsys):
    Store(project / "over/expected_code").merge({"scale/gone": {("2.13", "cuda_mine"): text("gone")}})
    Store(project / "ops/expected_code").merge({"scale/gone": {("2.13", "cuda_sm90"): text("gone")}})
    out, _ = printed(capsys, "prune", "ops", "--yes", "--store", "over")
    assert out == f"{project}/over/expected_code/scale/gone.txt\n1 snapshots of cases that no longer exist: removed\n"
    out, _ = printed(capsys, "prune", "--yes", "--torch", "2.13", "ops", "--store", "over")
    assert out.startswith("torch 2.13: 1 texts removed")
    left = [path.relative_to(project).as_posix() for path in sorted(project.rglob("*/expected_code/**/*.txt"))]
    assert left == ["ops/expected_code/scale/double-f32.txt", "ops/expected_code/scale/gone.txt"]


@pytest.mark.parametrize(
    "command", [("prune", "--torch=2.13", "ops", "--yes"), ("prune", "ops", "--yes"), ("accept", "run", "ops")]
)
def test_nothing_is_written_into_an_installed_package(project, capsys, command):
    (project / "ops-1.0.dist-info").mkdir()
    (project / "ops-1.0.dist-info/RECORD").write_text("ops/test_scale.py,,\n")
    Store(project / "over/expected_code").merge({"scale/gone": {("2.13", "cuda_mine"): text("gone")}})
    gone = project / "ops/expected_code/scale/gone.txt"
    gone.write_text("== torch 2.13: cuda_sm90\n" + text("gone"))
    run = Run(project / "run")
    run.begin({"torch": "2.13.0"})
    run.write_item(record("cuda_sm90", "changed"))
    installed._is_installed.cache_clear()  # the fixture has written there
    before = {path: path.read_text() for path in (project / "ops/expected_code").rglob("*.txt")}
    _, err = printed(capsys, *command, status=2)
    assert (
        "ops/expected_code belongs to the installed package ops, and nothing is written there: give --store DIR" in err
    )
    assert {path: path.read_text() for path in (project / "ops/expected_code").rglob("*.txt")} == before


def test_the_table_is_that_of_the_package_again(project):
    assert "cuda_mine" not in targets()
