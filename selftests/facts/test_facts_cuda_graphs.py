"""The fact cuda_graphs: the parts of a program under CUDA graphs, what splits it, and why Inductor refuses them."""

from __future__ import annotations

import pytest
import torch
from capturing import captured, facts_of

from conformance import tensor
from conformance.capture.observers.cuda_graphs import reason_text
from conformance.devices.environment import torch_build
from conformance.expectations.requirements import RequirementError
from conformance.facts import FactError, extract
from conformance.harness.contracts import contract

GRAPHS = {"triton.cudagraphs": True}
WHOLE = GRAPHS | {"graph_partition": False}
#: Inductor's name of a copy between devices.
COPY = "DeviceCopy ops" if torch_build().release < (2, 15) else "cross-device ops"


def scaled(x):
    return (x * 2).relu().sum(0)


def through_the_cpu(x):
    return torch.relu(x @ x.T) * x.sum().cpu().cos().to(x.device)


def written(x):
    x.add_(1)
    return x @ x.T


def product(x):
    return (x.cos() @ x.T).sum()


def graphs_of(fn, config=GRAPHS, target="cuda_sm90", **options):
    found = facts_of(fn, target, config=config, **options, x=tensor(8, 16))
    counts = tuple(found.value(f"cuda_graphs.{part}") for part in ("parts", "launches", "outside", "writing"))
    assert counts[0] == found.value("cuda_graphs")
    return counts, found.text("cuda_graphs").split("\n  ")


@pytest.mark.parametrize("config", [GRAPHS, WHOLE], ids=["split", "whole"])
@pytest.mark.parametrize("target", ["cuda_sm90", "rocm_gfx942"])
def test_one_part(target, config):
    assert graphs_of(scaled, config, target) == ((1, 1, 0, 0), ["1 part, 1 of 1 launches"])


def test_code_on_the_cpu_splits_it_forward_and_backward():
    counts, lines = graphs_of(through_the_cpu)
    assert counts == (2, 3, 3, 0)
    assert lines == ["2 parts, 3 of 6 launches", "split by cpu ops: _to_copy, cos", f"split by {COPY}: cos, _to_copy"]
    counts, lines = graphs_of(through_the_cpu, grad="x")
    assert counts[0] == 4
    assert "forward split by cpu ops: _to_copy, cos" in lines
    assert any(line.startswith("backward split by cpu ops: ") for line in lines)


def test_the_launches_of_parts_are_those_of_their_functions():
    capture = captured(through_the_cpu, "cuda_sm90", config=GRAPHS, x=tensor(8, 16))
    within = capture.modules[0].code.split("class Runner")[0].partition("def partition_0")[2]
    launches = within.count(".run(") + within.count("extern_kernels.")
    assert extract(capture).value("cuda_graphs.launches") == launches > 1


def test_without_parts_the_cpu_refuses_all():
    counts, lines = graphs_of(through_the_cpu, WHOLE, grad="x")
    assert counts[:2] == (0, 0)
    assert counts[2] > 5
    assert lines[0] == "none"
    assert lines[1].startswith("forward refused: cpu device")
    assert lines[2] == "backward refused: the forward has none"


def test_a_written_input():
    counts, lines = graphs_of(written)
    assert counts == (1, 2, 0, 1)
    assert lines[1] == "1 write to an input that is no parameter: recorded if a CUDA graph returned it"
    counts, lines = graphs_of(written, GRAPHS | {"triton.cudagraph_support_input_mutation": False})
    assert counts == (0, 0, 2, 0)
    assert lines == ["none", "refused: mutated inputs (1 instances)"]


def test_dynamic_shapes():
    static_only = {"triton.cudagraph_skip_dynamic_graphs": True}
    counts, lines = graphs_of(product, GRAPHS | static_only, dynamic=True)
    assert counts == (0, 0, 3, 0)
    assert lines == ["none", "split by dynamic shape ops: cos, permute, mm, sum"]
    counts, lines = graphs_of(product, WHOLE | static_only, dynamic=True)
    assert counts == (0, 0, 3, 0)
    assert lines[1].startswith("refused: graph with symbolic shapes inputs")
    assert "File" not in lines[1]


@pytest.mark.skipif(torch_build().release < (2, 13), reason="its C++ wrapper needs the binaries of the kernels")
def test_what_is_refused_before_the_lowering():
    counts, lines = graphs_of(scaled, GRAPHS | {"cpp_wrapper": True})
    assert (counts, lines[1]) == ((0, 0, 1, 0), "refused: cpp-wrapper does not support graph partition yet")


@pytest.mark.parametrize(("target", "config"), [("cpu_avx2", GRAPHS), ("cuda_sm90", {})])
def test_there_is_no_such_fact(target, config):
    with pytest.raises(FactError, match=r"no fact 'cuda_graphs.parts' \(only GPU captures with the option"):
        graphs_of(scaled, config, target)


def test_a_reason_has_no_stack_and_no_number_of_a_node():
    text = "skipping cudagraphs due to skipping cudagraphs due to cpu device (arg3_1). Found from : \n File 'x.py'"
    assert reason_text(text) == "cpu device"
    assert reason_text("disabling cudagraphs due to incompatible op aten.a Found from   File x") == (
        "incompatible op aten.a"
    )


def test_a_contract_that_is_lost_says_what_splits_the_program():
    demand = contract(facts={"cuda_graphs": 1, "cuda_graphs.outside": 0})
    demand.check(scaled, torch.randn(8, 16), target="cuda_sm90", config=GRAPHS)
    with pytest.raises(RequirementError, match="cuda_graphs: wanted 1, got 2: split by cpu ops: _to_copy, cos; split"):
        demand.check(through_the_cpu, torch.randn(8, 16), target="cuda_sm90", config=GRAPHS)
