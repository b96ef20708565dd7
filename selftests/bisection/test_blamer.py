"""Blaming functions: with a process that is made up, and once with the real torch."""

from __future__ import annotations

import dataclasses
import os

import pytest
from suites import environment

from conformance.bisection import blamer as blamer_module
from conformance.bisection.blamer import BlameError, Blamer
from conformance.bisection.differences import differences
from conformance.bisection.observation import Observation, Question
from conformance.bisection.observer import Observed, Observer
from conformance.bisection.sides import INSTALLED, Side, parse_side
from conformance.capture.json_worker import JsonWorker
from conformance.compiler.gpu_free_worker import COUNTING
from conformance.devices.environment import TorchBuild, torch_build
from conformance.sources.torch_source import SourceError, installed_files

CASE = "lambda x: x * x"
FUNCTIONS = ("load", "store", "helper", "noise", "broken", "unused")
FILE = "\n".join(f"def {name}():\n    return {name!r}, 'old'\n" for name in FUNCTIONS)


def code(chosen):
    """The code of a compiler with these functions in their new form: `store` needs `helper` as well."""
    load = "tl.load(x, other=0)" if "load" in chosen else "tl.load(x)"
    store = "tl.store(y, cast=True)" if {"store", "helper"} <= set(chosen) else "tl.store(y)"
    return f"def kernel(x, y):\n    {load}\n    tmp = x\n    {store}\n"


class MadeWorker:
    """Answers as the process with exchanged functions: `broken` fits to nothing, and `store` not without `helper`."""

    def __init__(self, *_, **__):
        self.asked = []

    def ask(self, request, _limit):
        if "case" not in request:
            return {"misfit": ""}
        chosen = [each["name"] for each in request["chosen"]]
        self.asked.append(chosen)
        if "broken" in chosen or ("store" in chosen and "helper" not in chosen):
            return Observation(misfit="NameError: helper").to_json()
        return Observation(code=code(chosen)).to_json()

    def close(self):
        pass


@dataclasses.dataclass(frozen=True)
class MadeObserver(Observer):
    answers: dict = dataclasses.field(default_factory=dict)

    def observe(self, packages, **_):
        used = list(range(1, 3 * (len(FUNCTIONS) - 1), 3))  # all but `unused`
        return Observed({CASE: self.answers[packages.name]}, {"_inductor/ops.py": used})


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A blamer of two trees in which every function differs."""
    monkeypatch.setattr(blamer_module, "JsonWorker", MadeWorker)
    sides = []
    for name in ("old", "new"):
        folder = tmp_path / name / "torch"
        (folder / "_inductor").mkdir(parents=True)
        (folder / "_inductor" / "ops.py").write_text(FILE.replace("'old'", f"'{name}'"))
        sides.append(Side(name, folder.parent, TorchBuild("2.13.0", (), folder)))
    installed_files.cache_clear()
    answers = {"old": Observation(code=code([])), "new": Observation(code=code(FUNCTIONS))}
    return Blamer(*sides, MadeObserver((CASE,), "cuda_sm90", answers=answers), Question())


def test_each_change_gets_the_fewest_functions_that_make_it(made):
    made.observe_sides()
    blamed = {each.change.title: [one.name for one in each.functions] for each in made.blame(CASE)}
    assert blamed["`tl.load(x)` → `tl.load(x, other=0)`"] == ["load"]
    assert sorted(blamed["`tl.store(y)` → `tl.store(y, cast=True)`"]) == ["helper", "store"]
    assert len(blamed) == 2


def test_functions_that_neither_side_executes_are_no_candidates(made):
    made.observe_sides()
    assert {each.name for each in made.candidates} == set(FUNCTIONS) - {"unused"}


def test_a_change_that_no_function_makes_says_what_stopped_it(made):
    new = code(FUNCTIONS).replace("tmp = x", "tmp = x + 0")
    made.observer.answers["new"] = Observation(code=new)
    made.observe_sides()
    (missing,) = [each for each in made.blame(CASE) if not each.functions]
    assert missing.change.title == "`tmp = x` → `tmp = x + 0`"
    assert "no group of functions that fits makes it, after" in missing.stopped
    assert missing.stopped.endswith("the commonest reason not to fit: NameError: helper")


def test_what_raised_is_left_out_at_once(made, monkeypatch):
    monkeypatch.setattr(blamer_module, "_ALONE", 1)
    monkeypatch.setattr(blamer_module, "_GROUPS", ())

    def ask(worker, request, limit):
        observed = MadeWorker.__dict__["ask"](worker, request, limit)
        broken = "broken" in [each["name"] for each in request.get("chosen", ())]
        return {**observed, "culprit": "torch/_inductor/ops.py: broken"} if broken else observed

    monkeypatch.setattr(blamer_module, "JsonWorker", type("Worker", (MadeWorker,), {"ask": ask}))
    made.observe_sides()
    (*_, last) = made.blame(CASE)
    assert [each.name for each in last.functions] == ["store", "helper"]
    asked = [names for names in made._worker.asked if "broken" in names]
    assert len(asked) == 1


def test_a_function_that_fits_with_others_alone_is_tried_again(made):
    made.observe_sides()
    store, helper = (next(each for each in made.candidates if each.name == name) for name in ("store", "helper"))
    made._fitting[CASE, ("",)] = [helper]
    assert made._fitting_with(CASE, ("",), [store], 99) == {store}
    broken = next(each for each in made.candidates if each.name == "broken")
    assert made._fitting_with(CASE, ("",), [broken], 99) == set()


def test_the_number_of_captures_is_limited(made):
    made.observer.answers["new"] = Observation(code=code([]).replace("tmp = x", "tmp = x + 0"))
    made.limit = 4
    made.observe_sides()
    (missing,) = made.blame(CASE)
    assert made.captures == 4
    assert "after 4 captures" in missing.stopped


def test_captures_that_find_what_fits_are_limited_and_counted(made, monkeypatch):
    monkeypatch.setattr(blamer_module, "_ALONE", 0)
    monkeypatch.setattr(blamer_module, "_GROUPS", ())
    made.observer.answers["new"] = Observation(code=code([]).replace("tmp = x", "tmp = x + 0"))
    made.observe_sides()
    (missing,) = made.blame(CASE)
    assert made._shared_captures > 0
    assert f"after {made.captures} captures" in missing.stopped
    made.captures = made.limit = 0
    made._answers.clear()
    made._fitting.clear()
    assert made._fitting_differences(CASE, ("",)) == []


def test_files_that_do_not_matter_are_left_out_first(made, monkeypatch):
    monkeypatch.setattr(blamer_module, "_FEW", 2)
    made.observe_sides()
    others = [dataclasses.replace(each, path=f"_inductor/{each.name}.py", name="noise") for each in made.candidates]
    change, old = made.changes(*made.observations(CASE))[-1], made.observations(CASE)[0]
    parts = [each for each in made.candidates if each.name in ("store", "helper", "load")]
    blamed = made._minimised(CASE, change, old, [*others, *parts])
    assert sorted(each.name for each in blamed.functions) == ["helper", "store"]
    halves = [names for names in made._worker.asked if names.count("noise") == 0]
    assert halves[0] == [each.name for each in parts]


def test_an_answer_that_was_not_minimised_says_so(made):
    """Two functions together make the change, so more than one capture is needed to leave out the others."""
    made.limit = 100
    made.observe_sides()
    (*_, last) = made.blame(CASE)
    assert not last.is_cut_off
    change, (old, _) = last.change, made.observations(CASE)
    made.limit = 0
    made._answers.clear()
    cut_off = made._minimised(CASE, change, old, made.candidates)
    assert cut_off.is_cut_off
    assert set(last.functions) < set(cut_off.functions)


def test_lines_in_another_order_are_one_change(made):
    lines = code([]).splitlines()
    made.observer.answers["new"] = Observation(code="\n".join([lines[0], *lines[2:], lines[1]]))
    made.limit = 3
    made.observe_sides()
    titles = [each.change.title for each in made.blame(CASE)]
    assert len(titles) == 1
    assert titles[0].startswith("another order of `tl.load(x)`")


def test_files_of_a_laid_tree_are_found_through_links(tmp_path):
    installed, laid = tmp_path / "installed" / "torch", tmp_path / "laid" / "torch"
    for folder, text in ((installed / "_inductor", "a = 1"), (laid / "_dynamo", "b = 2")):
        folder.mkdir(parents=True)
        (folder / "config.py").write_text(text)
    (laid / "_inductor").symlink_to(installed / "_inductor")
    assert list(installed_files(laid)) == ["_dynamo/config.py", "_inductor/config.py"]


def test_the_process_that_exchanges_may_count_more_calls_than_a_side(made, monkeypatch):
    """Here it counts 500 more than each side does. `noise` makes 1 % of the calls, which is no change."""
    made.question = Question("fact", "compile_work")

    def counted(chosen, more=0):
        calls = 10_000 + more + 2000 * ("load" in chosen) + 100 * ("noise" in chosen)
        return Observation(facts={"compile_work": str(calls)})

    def ask(_, request, __):
        return counted([each["name"] for each in request.get("chosen", ())], 500).to_json() | {"misfit": ""}

    monkeypatch.setattr(MadeWorker, "ask", ask)
    made.observer.answers.update(old=counted([]), new=counted(FUNCTIONS))
    made.observe_sides()
    (blamed,) = made.blame(CASE)
    assert blamed.change.title == "the fact compile_work: 10000 → 12100"
    assert [each.name for each in blamed.functions] == ["load"]


def test_equal_sides_are_refused(made):
    made.observer.answers["new"] = made.observer.answers["old"]
    made.observe_sides()
    with pytest.raises(BlameError, match="the code of --old and --new are the same: there is nothing to blame"):
        made.observations(CASE)


def test_a_side_that_cannot_be_observed_is_named(made):
    made.observer.answers["new"] = Observation(misfit="importing torch raises ImportError")
    with pytest.raises(BlameError, match=r"--new new cannot be observed: importing torch raises ImportError"):
        made.observe_sides()


def test_sides(tmp_path):
    assert parse_side(INSTALLED, "--old").packages == torch_build().folder.parent
    for wrong in (str(tmp_path), str(tmp_path / "missing")):
        with pytest.raises(SourceError):
            parse_side(wrong, "--new")
    other = tmp_path / "venv" / "lib" / "python3.1" / "site-packages" / "torch"
    other.mkdir(parents=True)
    with pytest.raises(SourceError, match="with which this command runs"):
        parse_side(str(tmp_path / "venv"), "--new")


@pytest.mark.long("it starts a real process that imports torch and captures")
@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("lambda x: -x", {"inputs": ["x=1000:f32"], "grad": []}),
        # a forked process has no threads for a product, and PyTorch refuses autograd there if its parent used it
        ("lambda x: -(x @ x)", {"inputs": ["x=64x64:f32"], "grad": ["x"]}),
    ],
)
def test_the_real_process_exchanges_a_function_for_one_capture(case, options, tmp_path):
    path = "_inductor/codegen/cpp.py"
    old = (torch_build().folder / path).read_text()
    new = old.replace('return f"{x}.neg()"', 'return f"({x} * -1)"')
    (changed,) = differences(path, old, new)
    assert changed.title == "torch/_inductor/codegen/cpp.py: CppVecOverrides.neg"
    worker = JsonWorker(
        "conformance.bisection.exchange_process",
        environment({"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | COUNTING),
    )
    options = {**options, "dynamic": False, "config": []}
    about = {
        "options": options,
        "target": "cpu_avx2",
        "tables": [],
        "numerics": False,
        "work": True,
        "packages": str(tmp_path),
        "members": [],
    }
    (tmp_path / "torch" / path).parent.mkdir(parents=True)
    (tmp_path / "torch" / path).write_text(new)
    try:
        assert worker.ask(about, 300) == {"misfit": ""}
        codes, calls = [], []
        for chosen in ([], [changed.to_json()], []):
            observed = Observation.from_json(worker.ask({"case": case, "chosen": chosen}, 300))
            assert (observed.misfit, observed.error) == ("", "")
            codes.append(observed.code)
            calls.append(int(observed.facts["compile_work"]))
    finally:
        worker.close()
    assert codes[0] == codes[2]
    assert calls[0] == calls[2] > 10_000
    assert ".neg()" in codes[0]
    assert "* -1)" in codes[1]
