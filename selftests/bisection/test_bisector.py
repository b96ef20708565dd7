"""Bisecting a small repository with a process that is made up: it answers from the text of the laid files."""

from __future__ import annotations

import dataclasses
import json

import pytest
from repositories import Repository, git

from conformance.bisection import bisector as bisector_module
from conformance.bisection.bisector import BisectError, Bisector
from conformance.bisection.history import History, HistoryError
from conformance.bisection.observation import Observation, Question, QuestionError
from conformance.bisection.observer import Observed, Observer
from conformance.devices.environment import TorchBuild
from conformance.sources.torch_source import installed_files

LOWERING = """
def mul(a, b):
    return a * b


def add(a, b):
    return a + b
"""
FILES = {"__init__.py": "", "lowering.py": LOWERING, "unused.py": "def f():\n    return 1\n"}


@dataclasses.dataclass(frozen=True)
class MadeObserver(Observer):
    """Observes the text of lowering.py: its code is the line in `mul`; a text with `torch._C` does not fit."""

    observed: list = dataclasses.field(default_factory=list)

    def observe(self, packages, **_):
        self.observed.append(packages)
        text = (packages / "torch" / "lowering.py").read_text()
        lines = text.splitlines()
        start = lines.index("def mul(a, b):")
        if "torch._C" in text:
            return Observed(dict.fromkeys(self.cases, Observation(misfit="importing torch raises AttributeError")))
        if "raise" in text:
            return Observed(dict.fromkeys(self.cases, Observation(error="NameError: x")), {"lowering.py": [start + 1]})
        code = "\n".join(lines[start : start + 2])
        numerics = "wrong" if "- b" in code else "right"
        calls = 1000 + 20 * ("b * a" in code) + 15 * ("VALUE" in text)
        facts = {"kernels": code[-1], "compile_work": str(calls)}
        observation = Observation(code=code, facts=facts, numerics=numerics, problem="made up")
        return Observed(
            dict.fromkeys(self.cases, observation), {"lowering.py": [start + 1]}, {"lowering.py": [start + 2]}
        )


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Nine commits after the release. `cause` changes what is observed; two leave a text that cannot be imported."""
    monkeypatch.setenv("CONFORMANCE_CACHE", str(tmp_path / "cache"))
    made = Repository(tmp_path / "pytorch")
    made.commit("release", FILES)
    installed_files.cache_clear()
    made.commit("unused", {"unused.py": "def f():\n    return 2\n"})
    made.commit("comment", {"lowering.py": LOWERING.replace("return a + b", "return a + b  # sum")})
    made.commit("add", {"lowering.py": LOWERING.replace("return a + b", "return b + a")})
    made.commit("breaks", {"lowering.py": LOWERING + "\nFAST = torch._C.fast\n"})
    made.commit("still broken", {"lowering.py": LOWERING + "\nFAST = torch._C.fast\nSLOW = 1\n"})
    made.commit("mends", {"lowering.py": LOWERING})
    made.commit("cause", {"lowering.py": LOWERING.replace("return a * b", "return b * a")})
    made.commit("elsewhere", {"new.cpp": "int x;"})
    made.commit("last", {"lowering.py": LOWERING.replace("return a * b", "return b * a") + "\nVALUE = 1\n"})
    build = TorchBuild("2.13.0", (), tmp_path / "pytorch" / "torch")
    site = tmp_path / "site" / "torch"
    site.mkdir(parents=True)
    for path, text in FILES.items():
        (site / path).write_text(text)
    build = TorchBuild("2.13.0", (), site)
    for module in (bisector_module, bisector_module.SavedObservations.__init__.__globals__):
        target = module if isinstance(module, dict) else vars(module)
        monkeypatch.setitem(target, "torch_build", lambda: build)
    return made


CASE = "lambda x: x * x"


def make(repository, question=None, good="release", bad="last", said=None):
    observer = MadeObserver((CASE,), "cuda_sm90")
    history = History(repository.folder, repository.commits[good], repository.commits[bad])
    said = [] if said is None else said
    return Bisector(history, observer, question or Question(), said.append)


def test_the_commit_its_function_and_the_lines_that_are_executed(repository):
    bisector = make(repository)
    bisector.check_ends(CASE)
    cause = bisector.find(CASE)
    assert cause.found.suspects == [repository.commits["cause"]]
    (function,) = cause.functions
    assert (function.path, function.name) == ("lowering.py", "mul")
    assert function.lines == ("-     3     return a * b", "*     3     return b * a")
    assert (cause.before.code, cause.after.code) == (
        "def mul(a, b):\n    return a * b",
        "def mul(a, b):\n    return b * a",
    )
    assert cause.is_last_answer


def test_commits_that_change_nothing_that_is_executed_are_not_measured(repository):
    bisector = make(repository)
    cause = bisector.find(CASE)
    measured = {commit for commit, _ in cause.found.tried}
    assert not measured & {repository.commits[name] for name in ("unused", "comment", "add", "elsewhere")}
    assert repository.commits["elsewhere"] not in bisector.history.commits


def test_commits_that_do_not_fit_are_skipped_and_named(repository):
    said = []
    cause = make(repository, bad="cause", said=said).find(CASE)
    assert cause.found.suspects == [repository.commits["cause"]]
    skipped = [line for line in said if line.startswith("  skipped")]
    assert skipped == [
        f"  skipped {repository.commits[name][:12]}  {name}: importing torch raises AttributeError"
        for name in ("still broken", "breaks")
    ]


def test_commits_with_which_the_case_does_not_compile_are_skipped_unless_an_end_is_one(repository):
    broken = LOWERING.replace("return a * b", "raise NameError\n    return b * a")
    repository.commit("broken for a time", {"lowering.py": broken})
    repository.commit("mended, and otherwise", {"lowering.py": LOWERING.replace("return a * b", "return 2 * a * b")})
    said = []
    cause = make(repository, good="last", bad="mended, and otherwise", said=said).find(CASE)
    assert [line for line in said if line.endswith("broken for a time: compiling raises NameError: x")]
    assert cause.found.suspects == [repository.commits[each] for each in ("broken for a time", "mended, and otherwise")]
    cause = make(repository, bad="broken for a time").find(CASE)
    assert cause.found.suspects == [repository.commits["cause"]]
    assert not cause.is_last_answer


def test_a_later_call_reuses_what_was_measured(repository):
    first = make(repository)
    first.check_ends(CASE)
    assert len(first.observer.observed) == 2
    second = make(repository)
    assert second.reused == 2
    second.find(CASE)
    assert not {first.observer.observed[0], first.observer.observed[1]} & set(second.observer.observed)
    json.loads(second.saved.file.read_text())
    second.saved.file.write_text("{")
    assert make(repository).reused == 0


def test_a_call_that_is_interrupted_keeps_what_it_has(repository, monkeypatch):
    bisector = make(repository)
    bisector.check_ends(CASE)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(MadeObserver, "observe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bisector.find(CASE)
    assert make(repository).reused == 2


@pytest.mark.parametrize("question", [Question("fact", "kernels"), Question("code")])
def test_facts_are_asked_for_as_code_is(repository, question):
    assert make(repository, question).find(CASE).found.suspects == [repository.commits["cause"]]


def test_calls_of_a_compile_changed_where_they_differ_by_2_percent(repository):
    question = Question("fact", "compile_work")
    cause = make(repository, question).find(CASE)
    assert cause.found.suspects == [repository.commits["cause"]]
    assert cause.is_last_answer, "the last commit changes 1.5 %"
    with pytest.raises(BisectError, match="--good and --bad are the same: 1020 and 1035: there is nothing"):
        make(repository, question, good="cause").check_ends(CASE)


def test_ends_that_are_the_same_are_refused(repository):
    with pytest.raises(BisectError, match="the numerics of --good and --bad are the same: right: there is nothing"):
        make(repository, Question("numerics")).check_ends(CASE)
    with pytest.raises(BisectError, match="the code of --good and --bad are the same"):
        make(repository, bad="mends").check_ends(CASE)


def test_an_end_that_does_not_fit_is_refused(repository):
    with pytest.raises(BisectError, match=r"--bad [0-9a-f]{12} cannot be observed with torch 2\.13\.0: imp"):
        make(repository, bad="breaks").check_ends(CASE)


def test_a_fact_that_the_case_lacks_is_refused(repository):
    with pytest.raises(QuestionError, match=r"--fact vectorised: the case has no such fact .* it has: kernels"):
        make(repository, Question("fact", "vectorised")).check_ends(CASE)


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("last", "last", "are the same commit"),
        ("last", "release", "comes before --good .* swap them"),
        ("cause", "elsewhere", "no commit after .* changes a Python file below torch/"),
    ],
)
def test_wrong_ends(repository, good, bad, message):
    with pytest.raises(HistoryError, match=message):
        History(repository.folder, repository.commits[good], repository.commits[bad])


def test_commits_of_two_branches(repository):
    git(repository.folder, "checkout", "-q", "-b", "side", repository.commits["release"])
    repository.commit("side", {"side.py": ""})
    with pytest.raises(HistoryError, match="does not come after --good"):
        History(repository.folder, repository.commits["side"], repository.commits["last"])


def test_a_merge_stands_for_what_it_brings(repository):
    git(repository.folder, "checkout", "-q", "-b", "side", repository.commits["mends"])
    repository.commit("of a branch", {"side.py": "A = 1\n"})
    repository.commit("of a branch, too", {"side.py": "A = 2\n"})
    git(repository.folder, "checkout", "-q", repository.commits["last"])
    git(repository.folder, "merge", "-q", "--no-ff", "-m", "merge", "side")
    history = History(repository.folder, repository.commits["last"], git(repository.folder, "rev-parse", "HEAD"))
    assert len(history.commits) == 1
    assert list(history.changed_files(history.commits[0])) == ["side.py"]


def test_the_repository_stays_as_it_is(repository):
    (repository.folder / "torch" / "lowering.py").write_text("edited")
    before = git(repository.folder, "status", "--porcelain"), git(repository.folder, "rev-parse", "HEAD")
    make(repository).find(CASE)
    assert (git(repository.folder, "status", "--porcelain"), git(repository.folder, "rev-parse", "HEAD")) == before
