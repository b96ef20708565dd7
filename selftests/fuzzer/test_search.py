"""A search: findings are grouped, nothing is checked twice, a stop loses nothing, and the time limit holds."""

from __future__ import annotations

import json
import time

import pytest
import torch

from conformance.devices.targets import targets
from conformance.expectations.known_failures import load
from conformance.fuzzer import search as search_module
from conformance.fuzzer.finding import operators, part_of, read_findings, similar_bug
from conformance.fuzzer.forms import Form
from conformance.fuzzer.generator import Generated
from conformance.fuzzer.search import Search, SearchError
from conformance.minimisation.program import Program, Step
from conformance.minimisation.script import Written
from conformance.minimisation.trial import Outcome, TrialError
from conformance.numerics.problem import Problem, WrongValues

TARGET = targets()["cpu_avx2"]
WRONG = Problem("output", "values", "wrong", "first", WrongValues({"number → number": 1}, 0.5, 2.0), 9.0, 1e6)


class Programs:
    """Program n: sin, and amax if n is odd. Every fifth number gives none."""

    def is_ready(self, _number):
        return True

    def program(self, number):
        if number % 5 == 4:
            return None
        steps = [Step("v0", "x0.sin()"), Step("v1", f"v0.amax({-1 - number % 2})" if number % 2 else "v0.cos()")]
        return Generated(
            number, Program({"x0": torch.rand(3, 4)}, tuple(steps), ("v1",)), Form(), ("a", "b"), Program({}, (), ())
        )


class FakeTrials:
    """amax is wrong. `slow`: seconds of a trial."""

    slow = 0.0
    asked = 0

    def __init__(self, target, call, **_):
        self.target, self.call, self.count, self.ended = target, call, 0, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.ended = True

    def run(self, program, *_, **__):
        self.count += 1
        FakeTrials.asked += 1
        until = time.monotonic() + self.slow
        while time.monotonic() < until:
            if self.ended:
                raise TrialError("the process that makes the trials ended")
            time.sleep(0.01)
        return Outcome((WRONG,) if "amax" in program.text else (), "", {})


@pytest.fixture(autouse=True)
def trials(monkeypatch):
    monkeypatch.setattr(search_module, "Trials", FakeTrials)
    monkeypatch.setattr(search_module, "write", lambda file, *_, **__: Written(file, True, "AssertionError: wrong"))
    monkeypatch.setattr(FakeTrials, "slow", 0.0)
    monkeypatch.setattr(FakeTrials, "asked", 0)


def searched(folder, seconds=1.5, seed=1, jobs=2, said=None):
    search = Search(folder, seed, [TARGET], {}, (said if said is not None else []).append, native=["cpu_avx2"])
    search.run(Programs(), time.monotonic() + seconds, jobs)
    return search


def test_one_finding_for_all_programs_with_the_same_cause(tmp_path):
    said = []
    search = searched(tmp_path, said=said)
    assert search.counts.failed > 3
    (finding,) = search.findings
    assert (finding.target, finding.evidence, finding.shows) == ("cpu_avx2", "native", True)
    assert finding.steps == (2, 1)
    assert len(finding.numbers) == search.counts.failed
    assert [line for line in said if finding.name in line] == [
        f"{finding.name}: output: values: number → number: amax on cpu_avx2 (native); AssertionError: wrong"
    ]
    assert read_findings(tmp_path) == [finding]
    case = (tmp_path / finding.name / f"test_{finding.name.replace('-', '_')}.py").read_text()
    assert "@case(" in case
    compile(case, "case.py", "exec")
    (entry,) = load(tmp_path / finding.name / "known_failures").failures
    assert entry.targets == ("cpu_avx2",)


def test_nothing_is_checked_twice(tmp_path):
    first = searched(tmp_path, 0.5)
    checked = [json.loads(line) for line in (tmp_path / "checked.jsonl").read_text().splitlines()]
    with (tmp_path / "checked.jsonl").open("a") as file:
        file.write('{"number": 99\n')  # a kill
    second = searched(tmp_path, 0.5)
    more = (tmp_path / "checked.jsonl").read_text().splitlines()[len(checked) :]
    again = [json.loads(line)["number"] for line in more[1:]]
    assert not {each["number"] for each in checked} & set(again)
    assert len(second.findings) == len(first.findings) == 1
    assert len(second.findings[0].numbers) > len(first.findings[0].numbers)


def test_the_time_limit_holds_and_what_was_cut_off_is_checked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeTrials, "slow", 60.0)
    start = time.monotonic()
    assert not searched(tmp_path, 0.5).counts.compared
    assert time.monotonic() - start < 10
    monkeypatch.setattr(FakeTrials, "slow", 0.0)
    searched(tmp_path, 0.5)
    numbers = [json.loads(line)["number"] for line in (tmp_path / "checked.jsonl").read_text().splitlines()]
    assert sorted(numbers)[:4] == [0, 1, 2, 3]


def test_the_time_limit_holds_where_no_program_fits(tmp_path):
    """A case may have no part that any program can take."""

    class NoProgram(Programs):
        def program(self, _number):
            time.sleep(0.01)

    search = Search(tmp_path, 1, [TARGET], {}, print, native=["cpu_avx2"])
    search.run(NoProgram(), time.monotonic() + 0.3, 1)
    assert not search.counts.compared


def test_another_search_in_the_folder_is_refused(tmp_path):
    searched(tmp_path, 0.1)
    with pytest.raises(SearchError, match=r"has a search with seed 1, and this one has 2: name another folder"):
        searched(tmp_path, 0.1, seed=2)
    with pytest.raises(SearchError, match=r"has a search with cases 0, and this one has 3"):
        Search(tmp_path, 1, [TARGET], {}, print, cases=3)


@pytest.mark.parametrize(("name", "text"), [("search.json", "{"), ("search.json", "[]"), ("amax/finding.json", "{}")])
def test_a_folder_with_other_files_is_refused(tmp_path, name, text):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(SearchError, match="has files that no search wrote: name another folder"):
        searched(tmp_path, 0.1)


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SearchError, match=r"file: .*; name another folder with --output"):
        searched(tmp_path / "file", 0.1)


def test_an_error_of_a_trial_ends_the_search(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise TrialError("no compiler")

    monkeypatch.setattr(FakeTrials, "run", refused)
    with pytest.raises(TrialError, match="no compiler"):
        searched(tmp_path, 30)


def test_part_to_blame():
    one = "backend inductor, decomposition of aten.put.default (application 3 of 7)"
    assert part_of(one) == "backend inductor, decomposition of aten.put.default"
    assert part_of(f"{one[:-5]}2 of 2), together with applications before it") == part_of(one)
    assert part_of("backend inductor: Inductor") == ""


def test_similar_bug():
    program = Program({}, (Step("v0", "torch.nn.functional.softshrink(x0)"), Step("v1", "v0.add_(1)")), ("v1",))
    assert operators(program) == ["softshrink", "add"]
    bugs = {"many": ["softshrink", "add", "mul"], "few": ["softshrink", "add"], "other": ["softshrink"]}
    assert similar_bug(program, bugs) == "few"
    assert similar_bug(program, {"other": ["softshrink"]}) == ""
