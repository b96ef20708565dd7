"""benchmarks/mutants.py on a small module: which mutants it has, how they are planted, and what is said of them."""

import ast
import functools
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from mutation import report, survivors
from mutation.campaign import AHEAD
from mutation.campaign import judged as campaign
from mutation.judging import EVERY_ITEM, Judgement, Limits, candidates, judge
from mutation.making import Tree
from mutation.operators import edits
from mutation.planting import Functions, NotPlantedError
from mutation.pool import Pool
from mutation.reached import Collector, Reached, joined, lines_traced
from mutation.sampling import population
from mutation.sources import Source
from mutation.suite import Verdict

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

SAMPLE = '''
"""A module."""
from __future__ import annotations
import ast
import functools
from types import SimpleNamespace
config = SimpleNamespace(fast=True)
TABLE = {}

def registered(function):
    TABLE[function.__name__] = function
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper

def plain(x, low=5):
    """Not 7."""
    if x < 0:
        raise ValueError(f"{x} < 0")
    return x > low and config.fast

@registered
def decorated(x):
    return x + 1

def times(n):
    def inner(x):
        return x * n
    return inner

TRIPLE = times(3)

class Code:
    def line(self, name):
        return f"{name} <= 0"

    def write_comment(self, x):
        return x + 2
'''


def outcomes(jobs, run):
    """Runs one job after the other in copies of this process: (job, result, how its process ended)."""
    with Pool(1) as pool:
        for job in jobs:
            pool.submit(job, functools.partial(run, job))
        return [pool.next() for _ in jobs]


class Sample:
    """The module, imported from a file, with its mutants."""

    def __init__(self, folder, area="lowerings"):
        path = folder / "sample.py"
        path.write_text(SAMPLE)
        self.source = Source("sample.py", area, path)
        spec = importlib.util.spec_from_file_location("sample", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.tree = Tree(self.source)
        self.mutants = self.tree.mutants()

    def mutant(self, text):
        (only,) = [each for each in self.mutants if text in each.id]
        return only

    def after(self, text, value):
        """What `value` of the module returns in a process with the mutant."""

        def run(mutant, _note):
            Functions([str(self.source.path)]).plant(self.tree, mutant)
            return value(self.module)

        ((_, result, how),) = outcomes([self.mutant(text)], run)
        assert not how
        return result


@pytest.fixture
def sample(tmp_path):
    return Sample(tmp_path)


def ids(mutants, function):
    return [each.id.partition(": ")[2] for each in mutants if each.function == function]


def test_mutants_of_a_function(sample):
    """None of a docstring, a default, an error or an option."""
    assert ids(sample.mutants, "plain") == [
        "comparison 1: x < 0 → x <= 0",
        "constant 1: 0 → 1",
        "dropped condition 1: x > low and config.fast → config.fast",
        "comparison 2: x > low → x >= low",
    ]


def test_generated_text_has_mutants_where_strings_are_code(sample, tmp_path):
    assert ids(sample.mutants, "Code.line") == []
    code = Sample(tmp_path, area="codegen cpp")
    assert ids(code.mutants, "Code.line") == [
        "generated text 1: ' <= 0' → ' < 0'",
        "generated text 2: ' <= 0' → ' <= 1'",
    ]


def test_code_of_a_module_and_comments_have_no_mutants(sample):
    functions = {each.function for each in sample.mutants}
    assert functions == {"plain", "registered", "decorated", "times.inner"}


def test_ids_do_not_depend_on_the_wanted_lines(sample):
    line = sample.mutant("x > low → x >= low").line
    wanted = sample.tree.mutants(lambda at, _statement: at == line)
    assert ids(wanted, "plain") == [
        "dropped condition 1: x > low and config.fast → config.fast",
        "comparison 2: x > low → x >= low",
    ]
    assert sample.tree.skipped == len(sample.mutants) - 2


# Planting ------------------------------------------------------------------------------------------------------------


def test_planted_into_a_plain_function(sample):
    assert sample.module.plain(5) is False
    assert sample.after("x > low → x >= low", lambda module: module.plain(5)) is True
    assert sample.module.plain(5) is False  # this process is as before


def test_planted_into_a_decorated_function(sample):
    values = sample.after("x + 1 → x - 1", lambda module: [module.decorated(3), module.TABLE["decorated"](3)])
    assert values == [2, 2]


def test_planted_into_closures_that_exist_and_later_ones(sample):
    values = sample.after("x * n → x + n", lambda module: [module.TRIPLE(5), module.times(4)(5)])
    assert values == [8, 9]


def test_planted_into_frozen_functions(sample):
    import gc

    gc.freeze()
    try:
        assert sample.after("x + 1 → x - 1", lambda module: module.decorated(3)) == 2
    finally:
        gc.unfreeze()


def test_not_planted_without_a_function(sample):
    functions = Functions([])
    with pytest.raises(NotPlantedError, match="no function of this process has the changed code"):
        functions.plant(sample.tree, sample.mutant("x + 1 → x - 1"))


# Judging -------------------------------------------------------------------------------------------------------------


class SampleSuite:
    """Its code is what the sample's functions return. Its checks know what `decorated` must return, and no more."""

    def __init__(self, module):
        self.module = module

    def text(self, item):
        return f"{self.module.decorated(1)} {self.module.TRIPLE(5)}" if item[0] == "case" else "always"

    def judge(self, _item, _seconds):
        return Verdict(numerics="" if self.module.decorated(1) == 2 else "wrong", calls=["first"])


def judged(sample, text, items=(("other", "cpu"), ("case", "cpu")), limits=EVERY_ITEM):
    suite = SampleSuite(sample.module)
    texts = [suite.text(item) for item in items]
    reached = Reached(list(items), texts, [0.1] * len(items), [""] * len(items), {}, np.zeros((len(items), 1)))

    def run(mutant, note):
        functions = Functions([str(sample.source.path)])
        order, say = range(len(items)), lambda each: note(each.to_json())
        result = judge(suite, functions, sample.tree, mutant, reached, order, limits, say)
        return result.to_json()

    ((_, result, how),) = outcomes([sample.mutant(text)], run)
    assert not how
    return Judgement(**result)


def test_found(sample):
    result = judged(sample, "x + 1 → x - 1")
    assert (result.outcome, result.how, result.item, result.calls) == ("found", ["values"], "case on cpu", ["first"])
    assert "-2 15\n+0 15" in result.diff
    assert (result.generated, result.changed) == (2, 1)


def test_survived(sample):
    result = judged(sample, "x * n → x + n")
    assert (result.outcome, result.item, result.quiet) == ("survived", "case on cpu", ["case on cpu"])
    assert "-2 15\n+2 8" in result.diff


def test_every_case_is_tried_where_that_is_asked_for(sample):
    """By default a mutant counts as unchanged once eight items kept their text."""
    items = [("other", "cpu")] * 8 + [("case", "cpu")]
    assert judged(sample, "x + 1 → x - 1", items, Limits()).outcome == "unchanged"
    assert judged(sample, "x + 1 → x - 1", items, EVERY_ITEM).outcome == "found"


def test_unchanged_code(sample):
    assert judged(sample, "x > low → x >= low").outcome == "unchanged"


def test_code_that_ran_at_import_is_unchanged(sample):
    assert judged(sample, "TABLE[function.__name__] = function → pass").outcome == "unchanged"


def test_an_error_while_compiling_is_no_changed_code(sample, monkeypatch):
    def fails(item):
        raise ZeroDivisionError("in Inductor") if sample.module.decorated(1) != 2 else AssertionError

    suite = SampleSuite(sample.module)
    reached = Reached([("case", "cpu")], ["2 15"], [0.1], [""], {}, np.zeros((1, 1)))
    monkeypatch.setattr(suite, "text", fails)

    def run(mutant, note):
        functions, say = Functions([str(sample.source.path)]), lambda each: note(each.to_json())
        return judge(suite, functions, sample.tree, mutant, reached, [0], EVERY_ITEM, say).to_json()

    ((_, result, _),) = outcomes([sample.mutant("x + 1 → x - 1")], run)
    assert (result["outcome"], result["message"]) == ("does not compile", "ZeroDivisionError: in Inductor")


def test_a_text_without_code_is_no_changed_code(sample, monkeypatch):
    """A case whose eager call raises has a text also where compiling raises; see facts."""
    suite = SampleSuite(sample.module)
    reached = Reached([("case", "cpu")], ["kernels 1"], [0.1], [""], {}, np.zeros((1, 1)))
    text = "kernels 1\ncode        none: compiling raises ValueRangeError: Invalid ranges"
    monkeypatch.setattr(suite, "text", lambda _item: text)

    def run(mutant, note):
        functions, say = Functions([str(sample.source.path)]), lambda each: note(each.to_json())
        return judge(suite, functions, sample.tree, mutant, reached, [0], EVERY_ITEM, say).to_json()

    ((_, result, _),) = outcomes([sample.mutant("x + 1 → x - 1")], run)
    assert (result["outcome"], result["message"]) == ("does not compile", "ValueRangeError: Invalid ranges")


def test_candidates_take_one_case_of_each_function_first(sample):
    items = [(f"{name}-{number}", "cpu") for name in ("flip/a", "pad/b") for number in range(3)]
    reached = Reached(items, ["text"] * 5 + [""], [0.1] * 6, [""] * 6, {}, np.zeros((6, 1)))
    order = candidates(sample.mutants[0], range(6), reached, {"flip/a-0 on cpu"}, Limits())
    names = [items[row][0].partition("-")[0] for row in order]
    assert sorted(names[:2]) == ["flip/a", "pad/b"]
    assert sorted(order) == [1, 2, 3, 4]  # 5 has no code, and 0 is left out


# The map -------------------------------------------------------------------------------------------------------------


def test_lines_and_items(sample, tmp_path):
    file = str(sample.source.path)
    collector = Collector({file: len(SAMPLE.split("\n"))})
    for number, call in enumerate([lambda: sample.module.plain(1), lambda: sample.module.decorated(1)]):
        with lines_traced([file]) as lines:
            call()
        collector.add((f"case{number}", "cpu"), "text", 0.1, "", lines)
    collector.reached().save(tmp_path / "map")
    loaded = Reached.load(tmp_path / "map")
    assert loaded.of_line(file, sample.mutant("x > low → x >= low").line) == [0]
    assert loaded.of_line(file, sample.mutant("x + 1 → x - 1").line) == [1]
    assert loaded.of_line(file, sample.mutant("x * n → x + n").line) == []
    assert joined([loaded.only([("case1", "cpu")]), loaded.only([("case0", "cpu")])]).items == loaded.items
    everything = population([sample.source], loaded)
    found = {mutant.function for mutant in everything.by_area["lowerings"]}
    assert found == {"plain", "decorated"}
    assert everything.unreached["lowerings"] == len(sample.mutants) - len(everything.by_area["lowerings"])


def test_a_seed_gives_an_order(sample):
    reached = Reached([], [], [], [], {str(sample.source.path): 0}, np.zeros((0, 9), dtype=np.uint8))
    everything = population([sample.source], reached)
    everything.by_area = {"lowerings": sample.mutants, "patterns": sample.mutants[:2]}
    first, again, other = (list(everything.order(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == len(sample.mutants) + 2
    assert set(first[1:4:2]) == set(sample.mutants[:2])  # the areas take turns


# Processes -----------------------------------------------------------------------------------------------------------


def test_jobs_tell_how_their_processes_ended():
    def run(job, note):
        note(f"{job} began")
        if job == "killed":
            os.kill(os.getpid(), signal.SIGSEGV)
        if job == "raises":
            raise ValueError
        return job

    assert outcomes(["fast", "killed", "raises"], run) == [
        ("fast", "fast", ""),
        ("killed", "killed began", f"signal {signal.SIGSEGV}"),
        ("raises", "raises began", "exit status 1"),
    ]


def test_a_job_that_is_first_does_not_wait_for_others():
    with Pool(1) as pool:
        for key in ("one", "two"):
            pool.submit(key, lambda _note: "")
        pool.submit("check", lambda _note: "", first=True)
        assert [pool.next()[0] for _ in range(3)] == ["check", "one", "two"]


class Checks:
    """A baseline with items that fail without a mutant."""

    def __init__(self, *fail):
        self.fail, self.passing, self.failing = fail, set(), set()

    def run(self, name, _note):
        return {"crash": name in self.fail}

    def add(self, name, result, how):
        assert not how
        (self.failing if result["crash"] else self.passing).add(name)


def test_a_campaign_keeps_the_order_and_judges_again_without_what_fails_anyhow():
    checks = Checks("flaky")

    def judge(mutant, _note):
        if mutant == 0:
            time.sleep(0.3)
        return Judgement("found", item="good" if "flaky" in checks.failing or mutant != 1 else "flaky").to_json()

    mutants = range(2 * AHEAD)
    results = list(campaign(iter(mutants), judge, checks, Pool(2)))
    assert [mutant for mutant, _ in results] == list(mutants)
    assert {judgement.item for _, judgement in results} == {"good"}
    assert (checks.passing, checks.failing) == ({"good"}, {"flaky"})


# The report ----------------------------------------------------------------------------------------------------------


def results_of(sample, *outcomes_of, entries=None):
    judgements = [Judgement(outcome, how=how) for outcome, how in outcomes_of]
    return report.sort_out(zip(sample.mutants, judgements, strict=False), entries or {})


def test_rate(sample):
    found, survived = ("found", ["values"]), ("survived", [])
    results = results_of(sample, found, survived, ("unchanged", []), ("does not compile", []), ("found", ["error"]))
    assert report.rate(results) == pytest.approx(2 / 3)
    assert "rate: 66.7% (2 of 3 mutants that change what is computed)" in report.headline(results)
    assert "without those whose code does not build or raises: 50.0%" in report.headline(results)


def test_a_sorted_survivor_does_not_count_and_a_hole_does(sample):
    found, survived = ("found", ["values"]), ("survived", [])
    for verdict, rate in (("speed", 1.0), ("hole", 0.5)):
        entries = {sample.mutants[1].id: survivors.Sorted(sample.mutants[1].id, verdict, "why")}
        results = results_of(sample, found, survived, entries=entries)
        assert report.rate(results) == rate
        text = report.text(results, {"lowerings": 1}, {"lowerings": 2})
        assert f"sorted survivors: 1 × {verdict}" in text
        assert (sample.mutants[1].id in text) == (verdict == "hole")


def test_the_file_of_sorted_survivors(tmp_path):
    file = tmp_path / "sorted.toml"
    assert survivors.read(file) == {}
    file.write_text('[[survivor]]\nid = "a"\nverdict = "speed"\nreason = "a hint"\n')
    assert survivors.read(file)["a"].verdict == "speed"
    file.write_text('[[survivor]]\nid = "a"\nverdict = "slow"\nreason = "a hint"\n')
    with pytest.raises(survivors.SurvivorsError, match="survivor 1: the verdict is 'slow', not one of speed"):
        survivors.read(file)
    file.write_text('[[survivor]]\nid = "a"\n')
    with pytest.raises(survivors.SurvivorsError, match="survivor 1 has id; it needs id, verdict and reason"):
        survivors.read(file)


def test_the_sorted_survivors_of_the_suite_are_well_formed():
    assert survivors.read(BENCHMARKS / "mutants_survivors.toml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--sample", "0"], "it must be 1 or more"), (["--survivors", "{}/none/x.toml", "--workers", "x"], "invalid")],
)
def test_a_wrong_option(arguments, message, tmp_path):
    command = [sys.executable, str(BENCHMARKS / "mutants.py"), *(each.format(tmp_path) for each in arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("text", "operator", "after"),
    [
        ("float('-inf')", "initial value", "0"),
        ("math.inf", "initial value", "0"),
        ("sizes[dim]", "dimension", "dim ^ 1"),
        ("reduce(x, include_self=False, dtype=d)", "dropped argument", "reduce(x, dtype=d)"),
    ],
)
def test_initial_values_dimensions_and_arguments(text, operator, after):
    found = [
        ast.unparse(edit.new)
        for node in ast.walk(ast.parse(text))
        for edit in edits(node, text=False)
        if edit.operator == operator
    ]
    assert found == [after]
