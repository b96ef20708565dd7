"""The work of a compile: the same numbers in each process, and how they grow with repetitions."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from conformance import facts
from conformance.capture.call_counts import PHASES
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import CaseError
from conformance.cases.lookup import selected_cases
from conformance.cases.repeated_case import repeated
from conformance.compiler.case_request import capture
from conformance.compiler.compile_growth import Growth, counted, growth
from conformance.compiler.compiler import compiler_here


@pytest.fixture
def compiler():
    with contextlib.closing(compiler_here()) as made:
        yield made


def function(compiler, text, **inputs):
    words = tuple(f"{name}={value}" for name, value in inputs.items())
    case, _ = resolve_case(text, compiler.machine.targets(), AdhocOptions(words, (), False, ()))
    return case


def test_two_processes_count_the_same():
    (case,) = selected_cases([], ["norm/layer_norm-plain-f32-backward-static"]).cases
    found = []
    for _ in range(2):
        with contextlib.closing(compiler_here()) as compiler:
            found.append(counted(compiler.capture, case, compiler.target("cuda_sm90")))
    assert found[0].calls == found[1].calls
    fact = facts.extract(found[0])
    assert set(found[0].calls["phases"]) >= set(filter(None, PHASES.values())) - {"decompositions"}
    assert fact.value("compile_work") > 10_000
    assert fact.value("compile_work.kernels") >= 2
    assert fact.value("compile_work.scheduling") > 100
    assert "calls, without those for symbols: " in fact.text("compile_work")


def test_what_was_compiled_before_does_not_count(compiler):
    case, target = function(compiler, "lambda x: x.sin() + 1", x="8x30"), compiler.target("cuda_sm90")
    first = counted(compiler.capture, case, target).calls
    counted(compiler.capture, function(compiler, "lambda x: x.sum()", x="8x30"), target)
    assert counted(compiler.capture, case, target).calls == first


def test_a_capture_without_counts_has_no_such_fact(compiler):
    case = function(compiler, "lambda x: x + 1", x="8x30")
    with compiler.generate(case, compiler.target("cuda_sm90")) as result:
        found = facts.extract(result.capture)
    with pytest.raises(facts.FactError, match="no fact 'compile_work'"):
        found.value("compile_work")


def test_repetitions_are_chained_or_side_by_side(compiler):
    x = function(compiler, "lambda x: x + 1", x="torch.zeros(3)")
    assert repeated(x, 4).fn(**x.build(0)).tolist() == [4, 4, 4]
    total = function(compiler, "lambda x: x.sum()", x="torch.zeros(3)")
    assert [each.item() for each in repeated(total, 3).fn(**total.build(0))] == [0, 3, 6]
    with pytest.raises(CaseError, match="cannot be repeated: no input is a tensor"):
        repeated(function(compiler, "lambda n: torch.ones(n)", n="3"), 2)


def test_growth_in_proportion_and_with_the_square():
    squares = Growth({n: {"all": 50_000 + 1000 * n * n, "scheduling": 1000 * n * n, "memory": 100} for n in (4, 8, 16)})
    assert squares.exponents() == {"all": 2, "scheduling": 2}
    assert list(squares.lines())[-1] == "faster than in proportion: scheduling, power 2.00"
    even = Growth({n: {"all": 1000 * n, "memory": 8 * n} for n in (1, 2, 4)})
    assert even.exponents() == {"all": 1, "memory": 1}
    hardly = Growth({n: {"all": 1000 * n, "memory": 4096 + each} for n, each in ((1, 0), (2, 4), (4, 512))})
    assert hardly.exponents() == {"all": 1}
    ends = Growth({n: {"all": 1000 * n, "memory": each} for n, each in ((1, 4096), (2, 8192), (4, 9000))})
    assert ends.exponents() == {"all": 1}
    assert "faster" not in "".join(even.lines())


def look(one, other):
    return one is other


@pytest.mark.parametrize(
    "planted",
    [True, pytest.param(False, marks=pytest.mark.long("all sizes of the case are compiled, none is cut off"))],
)
def test_a_pass_that_is_made_quadratic_is_found(compiler, monkeypatch, planted):
    """The planted pass calls a function for each pair of nodes of the graph."""
    compiler.set_up_torch()
    from torch._inductor.fx_passes import post_grad

    original = post_grad.post_grad_passes

    def passes(graph_module, *args):
        nodes = [*graph_module.graph.nodes]
        for _ in range(200):
            any(look(one, other) for one in nodes for other in nodes if one is not other)
        return original(graph_module, *args)

    def captures(request):
        return capture(replace(request, case=repeated(request.case, request.repeats)))

    if planted:
        monkeypatch.setattr("torch._inductor.compile_fx.post_grad_passes", passes)
    case = function(compiler, "lambda x: (x @ x).relu()", x="32x32")
    powers = growth(captures, case, compiler.target("cuda_sm90"), (4, 8, 16)).exponents()
    assert (powers["others"] > 1.5) == planted, powers
