"""The record of when each row of the device matrix passed last, and what lint says of its age."""

import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / "ci"
ROW = """
[runner.r]
labels = "x"
machine = "x86_64"
[[row]]
name = "a"
runner = "r"
env = "suite"
minutes = 1
holds = "a part"
turn = 2
short = [[]]
"""


@pytest.fixture
def turns(monkeypatch):
    monkeypatch.syspath_prepend(CI)
    for name in ("matrix", "turns"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import turns

    yield turns
    for name in ("matrix", "turns"):
        sys.modules.pop(name)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    (folder / "ci").mkdir(parents=True)
    git(folder, "init", "-q")
    commit(folder)
    return folder


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=folder, check=True)


def commit(folder, times=1):
    for _ in range(times):
        git(folder, "commit", "-q", "--allow-empty", "-m", "one")


def rows(turns, folder):
    file = folder / "matrix.toml"
    file.write_text(ROW)
    return turns.matrix.load(file)


def test_each_commit_has_the_turn_after_the_one_before(turns, repository):
    found = []
    for _ in range(5):
        found.append(turns.current(repository))
        commit(repository)
    assert found == [2, 3, 4, 1, 2]


def test_a_noted_run_has_its_commit_date_and_line(turns, repository):
    turns.note("a", 'said "3 passed"', repository)
    [run] = turns.read(repository).values()
    assert len(run.commit) == 40
    assert run.line == 'said "3 passed"'
    commit(repository, 2)
    [line] = turns.lines(rows(turns, repository), repository)
    assert ', 2 commits ago: said "3 passed"' in line


@pytest.mark.parametrize(("newer", "status", "said"), [(1, 0, ""), (3, 0, "warning: a"), (5, 1, "a: ")])
def test_an_old_row_is_named_and_then_fails(turns, repository, monkeypatch, capsys, newer, status, said):
    monkeypatch.setattr(turns, "WARNS", 2)
    monkeypatch.setattr(turns, "FAILS", 4)
    turns.note("a", "ok", repository)
    commit(repository, newer)
    assert turns.check(rows(turns, repository), repository) == status
    printed = capsys.readouterr().out
    assert printed.startswith(said)
    assert bool(printed) == bool(said)


def test_a_row_without_a_run_fails_with_the_command(turns, repository, capsys):
    assert turns.check(rows(turns, repository), repository) == 1
    assert "python ci/job.py --short a" in capsys.readouterr().out
