"""pytest with --baseline PATH[@COMMIT]: the code of a commit is generated first, and compared with."""

from __future__ import annotations

import sys

import pytest
from repositories import Repository
from suites import SCALE, SM90, Suite

from conformance.cli.main import main
from conformance.harness.selection import baseline_run
from conformance.settings import ACCEPT
from conformance.sources.git_repository import GitError
from conformance.sources.source_in_use import VARIABLE, SourceInUse
from conformance.sources.torch_source import SourceError
from conformance.storage.runs import Run, RunError


@pytest.fixture
def repository(tmp_path):
    """A repository of something like PyTorch, that cannot be imported."""
    found = Repository(tmp_path / "pytorch")
    found.commit("first", {"__init__.py": "raise ImportError('no binaries')"})
    return found


def test_a_run_comes_before_a_checkout_of_the_same_name(repository, tmp_path):
    source = baseline_run.baseline_source(str(repository.folder), tmp_path)
    assert baseline_run.run_name(source) == "baseline-pytorch"
    commit = baseline_run.baseline_source(f"{repository.folder}@HEAD", tmp_path)
    assert baseline_run.run_name(commit) == f"baseline-{repository.commits['first'][:12]}"
    assert baseline_run.baseline_source("before", tmp_path) is None
    Run(tmp_path / ".conformance" / "runs" / "before@1").begin({"torch": "2.13.0"})
    assert baseline_run.baseline_source("before@1", tmp_path) is None


def test_a_wrong_commit_and_a_folder_without_torch_are_refused(repository, tmp_path):
    with pytest.raises(GitError, match="has no commit 'gone'"):
        baseline_run.baseline_source(f"{repository.folder}@gone", tmp_path)
    with pytest.raises(SourceError, match=r"--baseline: .* has no torch/__init__\.py"):
        baseline_run.baseline_source(str(tmp_path), tmp_path)


def test_the_baseline_has_neither_this_source_nor_accepts(repository, tmp_path, monkeypatch, capsys):
    log = tmp_path / "baseline.log"
    seen, statuses = {}, [0, 4, 2]

    def status(command, folder, log, environment):
        log.write_text("\n".join(map(str, range(40))))
        seen.update(command=command, folder=folder, environment=environment)
        return statuses.pop(0)

    monkeypatch.setattr(baseline_run, "_status", status)
    used = SourceInUse("other", "/other", "", "other", 1, "/laid")
    environment = {"PYTHONPATH": "/laid:/mine", VARIABLE: "{}", ACCEPT: "1", "HOME": "/home"}
    source = baseline_run.baseline_source(f"{repository.folder}@HEAD", tmp_path)
    name = baseline_run.run_baseline(source, ["-k", "flip", "--baseline", "x"], tmp_path, log, used, environment)
    assert seen["environment"] == {"PYTHONPATH": "/mine", "HOME": "/home"}
    assert seen["command"][:5] == [sys.executable, "-m", "pytest", "-k", "flip"]
    later = seen["command"][7:]
    assert f"--conformance-torch-source={repository.folder}@{repository.commits['first']}" in later
    assert {"--conformance-baseline=", f"--conformance-save-run={name}", "--conformance-checks=code"} <= set(later)
    with pytest.raises(RunError, match="ended with status 4, so there is nothing to compare with"):
        baseline_run.run_baseline(source, [], tmp_path, log, used, environment, ["code", "work"])
    assert "--conformance-checks=code,work" in seen["command"]
    printed = capsys.readouterr().out
    assert ("\n38\n39\n" in printed, "\n24\n" in printed) == (True, False), "only the end of the run that did not run"
    with pytest.raises(SystemExit):
        baseline_run.run_baseline(source, [], tmp_path, log, used, environment)


def test_review_takes_the_same_word_once_there_is_a_run(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    word = f"{repository.folder}@HEAD"
    Run(tmp_path / ".conformance" / "runs" / "now").begin({"torch": "2.13.0"})
    assert main(["review", "now", "--list", "--baseline", word]) == 2
    assert f"run pytest --baseline={word}, which makes the run baseline-" in capsys.readouterr().err
    name = f"baseline-{repository.commits['first'][:12]}"
    Run(tmp_path / ".conformance" / "runs" / name).begin({"torch": "2.13.0"})
    main(["review", "now", "--list", "--baseline", word])
    assert "nothing was compared" in capsys.readouterr().out


@pytest.mark.long("it makes an environment with the sources of a commit and starts torch from it")
def test_a_commit_that_does_not_fit_is_one_sentence(repository, tmp_path):
    suite = Suite(tmp_path / "suite")
    suite.write("ops/test_scale.py", SCALE)
    result = suite.run(*SM90, f"--baseline={repository.folder}@HEAD").ends(4)
    result.has(
        "its output: ", "do not fit the binaries of torch", "ended with status 4, so there is nothing to compare with"
    )
    suite.run(*SM90, "--baseline", str(repository.folder)).ends(4).has(f"write --baseline={repository.folder}")
