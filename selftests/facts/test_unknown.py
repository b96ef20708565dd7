"""A part of torch that is renamed: the facts that need it are unknown, and no other fact changes."""

from __future__ import annotations

import contextlib
import importlib

import pytest
import torch
from capturing import captured

from conformance import tensor
from conformance.capture import isolation
from conformance.capture.observers import kernels
from conformance.capture.observers.recognised import CLASSES
from conformance.capture.patching.patch import is_missing
from conformance.devices.targets import targets
from conformance.expectations.requirements import RequirementError, check_facts
from conformance.facts import extract
from conformance.storage.accept import unknown_fact

#: Functions, and what is compiled for each, that together use every class of the table.
FUNCTIONS = {
    "products": (lambda x: (((x @ x).sin() @ x).relu() @ x).softmax(-1), (64, 64), "cpu_avx2", {}),
    "planned": (lambda x: ((x @ x).sin() @ x).relu() @ x, (64, 64), "cpu_avx2", {"memory_planning": True}),
    "transposed": (lambda x: x.t().contiguous() + 1, (64, 64), "cpu_avx2", {}),
    "fallbacks": (lambda x: x.sort().values + x.topk(3).indices.sum(), (40, 64), "cpu_avx2", {}),
    "scattered": (
        lambda x: x.clone().index_put_((torch.arange(4, device=x.device),), x[:4].sin(), accumulate=True),
        (40, 64),
        "cuda_sm90",
        {},
    ),
    "cat": (lambda x: torch.cat([x.sin(), x.cos()]).view(-1)[3:] * 2, (40, 64), "cuda_sm90", {}),
}


def texts(name):
    """Fact → its value and text."""
    function, shape, target, config = FUNCTIONS[name]
    torch._dynamo.reset()
    facts = extract(captured(function, target, config=config, x=tensor(*shape)))
    lines = facts.lines()
    further = facts.further()
    return {
        **{fact: (facts[fact].value, lines.get(fact)) for fact in facts},
        **{fact: (further[fact].value, further[fact].lines) for fact in further},
    }


@pytest.fixture(scope="module")
def right():
    return {name: texts(name) for name in FUNCTIONS}


def differing(right, name):
    """Each fact that is another one now → its value."""
    found = texts(name)
    return {fact: found[fact][0] for fact in found if found[fact] != right[name][fact] and fact != "guards"}


@contextlib.contextmanager
def renamed(*names):
    """Inside, the classes have another name. monkeypatch cannot set it back."""
    found = {name: getattr(importlib.import_module(CLASSES[name].module), name, None) for name in names}
    found = {name: each for name, each in found.items() if each is not None}  # some releases lack some
    for each in found.values():
        each.__name__ = "Renamed"
    try:
        yield
    finally:
        for name, each in found.items():
            each.__name__ = name


BY_FACTS = {
    each.facts: [name for name, other in CLASSES.items() if other.facts == each.facts] for each in CLASSES.values()
}


@pytest.mark.parametrize("facts", [facts for facts in BY_FACTS if facts], ids="-".join)
def test_classes_are_renamed(right, facts):
    """Those that the same facts need, together: what changes is what each of them may change."""
    with renamed(*BY_FACTS[facts]):
        for each in FUNCTIONS:
            wrong = differing(right, each)
            assert set(wrong.values()) <= {"unknown"}, (each, wrong)
            assert set(wrong) == set(facts) & set(right[each])


@pytest.mark.parametrize("name", [name for name, each in CLASSES.items() if each.facts])
def test_each_class_is_named(name):
    if not hasattr(importlib.import_module(CLASSES[name].module), name):
        pytest.skip(f"torch {torch.__version__} has no {name} yet")
    with renamed(name):
        assert kernels.unknown_facts() == dict.fromkeys(sorted(CLASSES[name].facts), f"{CLASSES[name].module}.{name}")


RECORDING = {patch.where: patch for patch in kernels.patches() if patch.facts and not patch.is_missing()}


@pytest.mark.parametrize("where", RECORDING)
def test_what_an_observer_replaces_is_missing(right, where, monkeypatch):
    """For the observers alone: torch itself needs the name."""

    def lost(each):
        return each == where or is_missing(each)

    monkeypatch.setattr("conformance.capture.patching.patch.is_missing", lost)
    monkeypatch.setattr(kernels.unknown_facts, "__defaults__", (lost, ()))
    wrong = differing(right, "products")
    assert set(wrong.values()) <= {"unknown"}, wrong
    assert set(wrong) == set(RECORDING[where].facts) & set(right["products"]) - {"guards"}


def test_a_class_that_every_capture_needs():
    lost = "torch._inductor.graph:SubgraphLowering"
    rows = [targets()["cpu_avx2"], targets()["cuda_sm90"]]
    problems = isolation.patch_problems(rows, (), lambda where: where == lost)
    assert set(problems) == {"cpu", "cuda"}
    assert all("torch._inductor.graph.SubgraphLowering is missing" in each for each in problems.values())


def test_no_torch_that_is_supported_lacks_one():
    assert kernels.unknown_facts() == {}


def test_nothing_unknown_is_stored():
    text = "kernels  1\nbuffers       unknown: torch 2.13.0 lacks a.b, which this fact needs\n"
    assert unknown_fact(text) == "buffers unknown: torch 2.13.0 lacks a.b, which this fact needs"
    assert unknown_fact("buffers  1 allocated\n") == ""


def test_an_unknown_fact_meets_no_requirement():
    fn = FUNCTIONS["planned"][0]
    with renamed("AllocateLine"):
        facts = extract(captured(fn, "cpu_avx2", x=tensor(64, 64)))
    with pytest.raises(RequirementError, match=r"memory: wanted '<=9999999', got 'unknown': torch \S+ lacks"):
        check_facts("fn", {"memory": "<=9999999"}, facts, "advice", lambda _: [])
