"""The matches of a pattern that a case names: by passes, and in the graph after them; and why one does not match."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.pattern_matcher import (
    CallFunction,
    Ignored,
    KeywordArg,
    ListOf,
    PatternMatcherPass,
    fwd_only,
    register_graph_pattern,
    register_replacement,
)

from conformance import case, contract, tensor
from conformance.capture.observers.pattern_matches import PatternError
from conformance.cases.case import CaseError
from conformance.cases.wanted_matches import wanted_matches_of
from conformance.expectations.contracts import ContractError
from conformance.expectations.requirements import RequirementError

aten = torch.ops.aten
X = torch.ones(20)


def halves(x):
    a, b = torch.split(x, [10, 10])
    return a.sin() * b


def sine_of_double(x):
    return (x + x).sin()


def cosine(x):
    return x.cos()


class Pass:
    """A pass over a graph, as a library makes it: an object with a PatternMatcherPass in it."""

    def __init__(self, **options):
        self.patterns = PatternMatcherPass()
        register_replacement(sine_of_double, cosine, [X], fwd_only, [self.patterns], **options)

    def __call__(self, graph):
        self.patterns.apply(graph)


def said(demand, function, *inputs, **options):
    """What the first line says of the pattern; "" if the demand is met."""
    try:
        demand.check(function, *(inputs or (X,)), **{"target": "cpu_avx2", **options})
    except RequirementError as error:
        first = str(error).split("\n")[0]
        return first.partition(": pattern ")[2].rpartition("; ")[0].partition(" (also")[0]
    return ""


IN_THE_GRAPH = contract(pattern=halves, inputs=(X,))


def minus(x):
    a, b = torch.split(x, [10, 10])
    return a.sin() - b


def of_cosine(x):
    a, b = torch.split(x, [10, 10])
    return a.cos() * b


@pytest.mark.parametrize(
    ("function", "difference"),
    [
        (lambda x: x[:10].sin() * x[10:], "the graph has aten.slice.Tensor where aten.split_with_sizes was"),
        (of_cosine, "the graph has aten.cos where aten.sin was"),
        (minus, "the graph has aten.sub.Tensor where aten.mul.Tensor was"),
        (lambda x: x * 2, "the graph has an input where aten.sin was"),
        (lambda x: x + 1, "there is no aten.mul.Tensor in the graph: it has aten.add.Tensor"),
    ],
)
def test_the_place_that_is_most_alike(function, difference):
    assert said(IN_THE_GRAPH, function) == f"halves: wanted 1, matched 0: {difference}"
    assert said(IN_THE_GRAPH, lambda x: halves(x + 1) - 1) == ""


def test_a_result_that_is_needed_elsewhere():
    def function(x):
        a, b = torch.split(x, [10, 10])
        sine = a.sin()
        return sine * b, sine

    assert said(IN_THE_GRAPH, function) == (
        "halves: wanted 1, matched 0: aten.sin has more or fewer users than in the pattern: "
        "aten.mul.Tensor and the end of the graph"
    )


def test_counts_and_bounds():
    twice = lambda x: halves(x) + halves(x + 1)  # noqa: E731
    assert said(contract(pattern=halves, inputs=(X,), matches=2), twice) == ""
    assert said(contract(pattern=halves, inputs=(X,), matches=">=2"), twice) == ""
    assert said(IN_THE_GRAPH, twice) == "halves: wanted 1, matched 2"
    assert said(contract(pattern=halves, inputs=(X,), matches=3), lambda x: twice(x) + x[:10].sin() * x[10:]) == (
        "halves: wanted 3, matched 2: the graph has aten.slice.Tensor where aten.split_with_sizes was"
    )


def test_expressions():
    sines = CallFunction(aten.cat.default, ListOf(CallFunction(aten.sin.default, KeywordArg("x"))), Ignored())
    demand = contract(pattern=sines, name="sines")
    assert said(demand, lambda x: torch.cat([x.sin(), (x + 1).sin()])).startswith("sines: wanted 1, matched 0")
    alone = CallFunction(aten.cat.default, ListOf(CallFunction(aten.sin.default, KeywordArg("x"))))
    function = contract(pattern=alone, name="sines")
    assert said(function, lambda x: torch.cat([x.sin(), (x + 1).cos()])) == (
        "sines: wanted 1, matched 0: the graph has aten.cos where aten.sin was"
    )


@pytest.mark.parametrize("pattern", ["function", "replacement", "pass", "owner"])
def test_a_pass_of_a_library(pattern):
    own = Pass()
    by = {"function": sine_of_double, "replacement": cosine, "pass": own.patterns, "owner": own}[pattern]
    demand = contract(pattern=by, name="it")
    with_pass = {"config": {"post_grad_custom_post_pass": own}}
    assert said(demand, lambda x: sine_of_double(x) * 3, **with_pass) == ""
    assert (
        said(
            contract(pattern=by, name="it", matches=2), lambda x: sine_of_double(x) + sine_of_double(x * 2), **with_pass
        )
        == ""
    )
    assert said(demand, lambda x: (x - x * 2).sin(), **with_pass) == (
        "it: wanted 1, matched 0: the graph has aten.sub.Tensor where aten.add.Tensor was"
    )
    assert said(demand, lambda x: (x + x * 2).sin(), **with_pass) == (
        "it: wanted 1, matched 0: two different values stand where the pattern has one twice"
    )
    # The graph has all operators of the pattern, and no pass runs
    lost = "its pass was not applied" if pattern in ("pass", "owner") else "no pass of this compile has the pattern"
    assert said(demand, sine_of_double).startswith(f"it: wanted 1, matched 0: {lost}")


def test_a_pass_whose_check_refuses():
    own = Pass(extra_check=lambda _: False)
    assert said(contract(pattern=own), sine_of_double, config={"post_grad_custom_post_pass": own}).startswith(
        "Pass: wanted 1, matched 0: all its operators are there, but its extra_check, another pattern or a write"
    )


def test_the_handler_of_a_pattern():
    own = PatternMatcherPass()

    @register_graph_pattern(
        CallFunction(aten.sin.default, CallFunction(aten.exp.default, KeywordArg("x"))), pass_dict=own
    )
    def to_cosine(match, x):
        match.replace_by_example(lambda x: x.cos(), [x])

    config = {"post_grad_custom_post_pass": own.apply}
    assert said(contract(pattern=to_cosine), lambda x: x.exp().sin(), config=config) == ""
    assert said(contract(pattern=to_cosine), lambda x: x.log().sin(), config=config) == (
        "to_cosine: wanted 1, matched 0: the graph has aten.log where aten.exp was"
    )


def by_hand(q, k, v):
    return (q @ k.transpose(-2, -1)).div(5.0).softmax(-1) @ v


def test_names_of_inductor():
    inputs = [torch.ones(2, 4, 16, 32) for _ in range(3)]
    assert said(contract(pattern="fuse_attention.sfdp_pattern_1"), by_hand, *inputs) == ""
    assert said(contract(pattern="fuse_attention"), by_hand, *inputs) == ""
    changed = lambda q, k, v: (q @ k.transpose(-2, -1)).div(5.0).exp().softmax(-1) @ v  # noqa: E731
    assert said(contract(pattern="fuse_attention.sfdp_pattern_1"), changed, *inputs) == (
        "fuse_attention.sfdp_pattern_1: wanted 1, matched 0: the graph has aten.exp where aten.div.Tensor was"
    )
    assert "no pass of this compile has a pattern of this name; nearest: fuse_attention.sfdp_pattern_1" in said(
        contract(pattern="fuse_attention.sfdp_patern_1"), by_hand, *inputs
    )


def test_a_requirement_on_the_fact_patterns_says_it_too():
    """The name of a pattern in `require=` of a case needs no contract."""
    inputs = [torch.ones(2, 4, 16, 32) for _ in range(3)]
    wanted = {"patterns.fuse_attention.sfdp_pattern_1": 1}
    changed = lambda q, k, v: (q @ k.transpose(-2, -1)).div(5.0).exp().softmax(-1) @ v  # noqa: E731
    with pytest.raises(RequirementError) as caught:
        contract(facts=wanted).check(changed, *inputs, target="cpu_avx2")
    assert str(caught.value).split("\n")[0] == (
        "<lambda> on cpu_avx2: patterns.fuse_attention.sfdp_pattern_1: wanted 1, got 0: "
        "the graph has aten.exp where aten.div.Tensor was; 1 of 1 requirements not met"
    )
    with pytest.raises(RequirementError) as caught:
        contract(facts={"patterns.fuse_attention": 0}).check(by_hand, *inputs, target="cpu_avx2")
    assert ": patterns.fuse_attention: wanted 0, got 1; 1 of 1" in str(caught.value)


def test_counters_of_inductor_are_names_too():
    product = lambda x, y: x @ y  # noqa: E731
    sizes = torch.ones(1, 64), torch.ones(64, 8)
    assert said(contract(pattern="decompose_mm", name="decompose_mm", matches="<=1"), product, *sizes) == ""


def test_wrong_patterns_say_what_would_be_right():
    with pytest.raises(PatternError, match="the pattern 'int' is of type int; give a function, the name of a pattern"):
        contract(pattern=3).check(cosine, X, target="cpu_avx2")
    with pytest.raises(PatternError, match="the pattern 'halves' cannot be traced with its inputs: "):
        contract(pattern=halves, inputs=(3,)).check(cosine, X, target="cpu_avx2")
    with pytest.raises(ContractError, match="the pattern is a lambda; say how messages name it"):
        contract(pattern=lambda x: x)
    with pytest.raises(ContractError, match="inputs= and name= belong to pattern="):
        contract(matches=2)
    with pytest.raises(ContractError, match="matches is 'twice'; give a number, or a bound"):
        contract(pattern="x", matches="twice")


def test_two_patterns_of_one_case():
    both = contract(pattern=halves, inputs=(X,)) | contract(pattern=sine_of_double, inputs=(X,), matches=0)
    assert said(both, halves) == ""

    @case(x=tensor(20), require={"all": contract(pattern=halves), "gpu": contract(pattern=cosine, name="halves")})
    def test_it(x):
        return x

    with pytest.raises(CaseError, match="two patterns are named 'halves'; give one of them another name"):
        wanted_matches_of(test_it.cases[0])


def test_a_gpu_and_gradients():
    options = {"target": "cuda_sm90", "grad": True}
    x = X.clone().requires_grad_()
    assert said(contract(pattern=cosine, inputs=(X,), matches=1), lambda x: x.sin(), x, **options) == ""
