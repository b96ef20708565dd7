"""Runs of other folders: `review` and `accept` find what is stored for them from any folder, or say what is missing."""

from __future__ import annotations

import shutil

import pytest

from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run, link_last_run, run_folder
from conformance.storage.snapshots import Store

CASE = "loss/mse-f32"
STORED, NEW = "kernels     1: mul\n", "kernels     2: mul, add\n"
TEST = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32"]))
def test_mse(x):
    return x * x
"""


class Project:
    """A project with one case, a stored text for it, and a run with another text."""

    def __init__(self, root, test=TEST):
        self.root = root.resolve()
        (self.root / "tests").mkdir(parents=True)
        (self.root / "pytest.ini").write_text("[pytest]\n")
        self.file = self.root / "tests/test_loss.py"
        self.file.write_text(test)
        self.store.merge({CASE: {("2.13", "cuda_sm90"): STORED}})

    @property
    def store(self):
        return Store(self.root / "tests/expected_code", ["cuda_sm90"])

    def write_run(self, **values):
        self.run = Run(run_folder(self.root, "mine"))
        self.run.begin({"torch": "2.13.0", "triton": "", "targets": ["cuda_sm90"], "root": str(self.root)})
        data = {"case": CASE, "target": "cuda_sm90", "mode": "deviceless", "torch": "2.13.0", "text": NEW}
        data |= {"store": str(self.store.root), "file": str(self.file)}
        self.run.write_item(ItemRecord(**data | values))
        link_last_run(self.root, self.run)
        return self.run.folder

    def stored(self):
        return self.store.read(CASE).text("2.13", "cuda_sm90")


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path / "project")
    made.write_run()
    return made


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An unrelated folder, as the current one."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_run_by_its_path_from_any_folder(project, elsewhere, call):
    status, out, err = call("review", project.run.folder, "--list")
    assert status == 0
    assert out.startswith("1 text of 1 case differs by 1 cause")
    assert err == f"what is stored for this run is in {project.store.root}\n"
    assert not list(elsewhere.iterdir())  # looking creates nothing
    assert call("accept", project.run.folder)[:2] == (0, "snapshots: 0 new, 1 changed, 0 unchanged\n")
    assert project.stored() == NEW


def test_a_run_by_its_name_from_a_folder_below(project, monkeypatch, call):
    monkeypatch.chdir(project.root / "tests")
    for name in ("mine", "last"):
        status, out, err = call("review", name, "--list")
        assert (status, err) == (0, "")
        assert out.startswith("1 text of 1 case differs")
    status, _, err = call("review", "yours")
    runs = project.root / ".conformance/runs"
    assert (status, err) == (2, f"error: there is no run 'yours'; existing runs: last, mine; looked in {runs}\n")


def test_a_project_that_has_moved(project, elsewhere, tmp_path, call):
    project.root.rename(tmp_path / "moved")
    assert call("review", tmp_path / "moved/.conformance/runs/last", "--accept", "all")[0] == 0
    project.root = tmp_path / "moved"
    assert project.stored() == NEW


def test_a_run_brought_from_another_machine(project, tmp_path, monkeypatch, call):
    """Its paths do not exist here. The same project is here at another place."""
    run = shutil.copytree(project.run.folder, tmp_path / "brought")
    shutil.rmtree(project.root)
    here = Project(tmp_path / "here")
    monkeypatch.chdir(here.root / "tests")
    assert call("accept", run)[0] == 0
    assert here.stored() == NEW


def test_in_another_checkout_its_own_snapshots_count(project, tmp_path, monkeypatch, call):
    other = Project(tmp_path / "other")
    monkeypatch.chdir(other.root)
    assert call("accept", project.run.folder)[0] == 0
    assert (other.stored(), project.stored()) == (NEW, STORED)


def test_another_project_with_such_a_file_is_not_taken_for_the_runs(project, tmp_path, monkeypatch, call):
    other = Project(tmp_path / "other", TEST.replace("test_mse", "test_huber"))
    monkeypatch.chdir(other.root)
    assert call("accept", project.run.folder)[0] == 0
    assert (other.stored(), project.stored()) == (STORED, NEW)


def test_what_is_gone_is_said_and_nothing_is_stored_for_an_equal_id(project, tmp_path, elsewhere, call):
    """A case of the package with the same id is another case."""
    file = project.root / "tests/test_flip.py"
    run = project.write_run(case="flip/hflip-224-u8-contiguous", file=str(file))
    run = shutil.copytree(run, tmp_path / "brought")
    shutil.rmtree(project.root)
    status, out, _ = call("accept", run)
    assert status == 1
    assert out.startswith("snapshots: 0 new, 0 changed, 0 unchanged\n")
    name = "flip/hflip-224-u8-contiguous-cuda_sm90"
    assert f"not accepted: {name}: there is no such case in {elsewhere} or in conformance, and {file} does not" in out
    assert "; call the command in the run's project, or name the files of its cases\n" in out
    status, out, err = call("review", run, "--list")
    assert status == 1
    assert out == "nothing was compared; 1 item of the run could not be compared\n"
    assert err.startswith(f"{name}: there is no such case in ")


def test_items_without_code_are_named(project, monkeypatch, call):
    monkeypatch.chdir(project.root)
    project.write_run(text="", checks={"compile": CheckResult(Outcome.FAILED, "RuntimeError: no")})
    status, out, _ = call("accept", "mine")
    assert status == 1
    assert f"not accepted: {CASE}-cuda_sm90: no code was generated: RuntimeError: no\n" in out
    project.write_run(target="my_gpu")
    status, out, _ = call("accept", "mine")
    assert status == 1
    assert f"not accepted: {CASE}-my_gpu: there is no target my_gpu in the tables of targets here\n" in out
    assert f"{CASE}-my_gpu: there is no target my_gpu" in call("review", "mine", "--list")[2]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "{root}",
            "the folder '{root}' is no run: it has no run.json; there are runs in {root}/",
        ),
        ("{root}/nowhere", "there is no run '{root}/nowhere': the folder does not exist"),
        ("mine", "there is no run 'mine'; existing runs: none (write one with --save-run); looked in {here}/"),
    ],
)
def test_what_is_no_run(project, elsewhere, call, word, message):
    names = {"root": project.root, "here": elsewhere}
    for words in (["review"], ["accept"], ["list", "--missed"], ["report", "--audit"]):
        status, out, err = call(*words, word.format(**names))
        assert (status, out) == (2, "")
        assert err.startswith(f"error: {message.format(**names)}")
        assert err.count("\n") == 1


def test_nothing_is_dropped_or_pruned_where_no_case_is(elsewhere, call):
    for words in (["prune", "--yes", "--torch", "2.13"], ["prune", "--yes"]):
        status, _, err = call(*words)
        assert status == 2
        assert err == f"error: there is no file of cases in {elsewhere}; name the files or folders of the cases\n"


def test_drop_and_prune_are_for_the_project(project, monkeypatch, call):
    project.store.merge({"loss/gone": {("2.13", "cuda_sm90"): STORED}})
    monkeypatch.chdir(project.root / "tests")
    out = call("prune", "--yes")[1]
    assert out == f"{project.store.path('loss/gone')}\n1 snapshots of cases that no longer exist: removed\n"
    assert call("compare", "2.13", "2.15")[2] == ("error: nothing is stored for torch 2.15; stored are 2.13\n")
    assert call("prune", "--yes", "--torch=2.13")[:2] == (
        0,
        "torch 2.13: 1 texts removed; stored are none\n",
    )
