"""`contract(…)`: its demands as facts, `check` of functions and modules, and in `require=` of a case."""

from __future__ import annotations

import subprocess
import sys

import pytest
from capturing import facts_of

from conformance import case, contract, tensor
from conformance.cases.case import CaseError
from conformance.cases.selectors import DeclarationError
from conformance.devices.targets import TargetError, targets
from conformance.expectations.contracts import ContractError
from conformance.expectations.requirements import RequirementError, check, validate
from conformance.facts import NAMES

torch = pytest.importorskip("torch")


def scaled(x, factor=2.0):
    return (x * factor).sin()


def in_two_parts(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


def first_line_of(demand, function, *inputs, **options):
    options = {"target": "cpu_avx2"} | options
    with pytest.raises(RequirementError) as caught:
        demand.check(function, *inputs, **options)
    return str(caught.value).split("\n")[0]


def test_demands_become_facts():
    demand = contract(
        contains={"aten.mm": 2, "mylib.norm.default": "<=1"},
        lacks=["aten.slice.Tensor"],
        kernels="<=2",
        bytes_at_most=4096,
        fallbacks=0,
        layout_changes=0,
        graph_breaks=0,
        facts={"vectorised": "yes"},
    )
    assert demand == {
        "operators.aten.mm": 2,
        "operators.mylib.norm": "<=1",
        "operators.aten.slice.Tensor": 0,
        "kernels": "<=2",
        "layout_changes": 0,
        "graph_breaks": 0,
        "bytes.moved": "<=4096",
        "fallbacks": [],
        "vectorised": "yes",
    }
    assert contract(contains="aten.mm") == contract(contains=["aten.mm"]) == {"operators.aten.mm": ">=1"}
    assert contract(fallbacks=["aten.sort"]) == {"fallbacks": ["aten.sort"]}


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({}, "demands nothing; write contract"),
        ({"contains": ["aten mm"]}, "contains names 'aten mm'; give the name as text, such as 'aten.mm'"),
        ({"contains": 3}, "contains is 3; give names of operators"),
        ({"contains": {"aten.mm": "two"}}, r"contains\['aten.mm'\] is 'two'; give a number, or a bound such as '<=2'"),
        ({"contains": ["aten.mm"], "lacks": ["aten.mm"]}, "contains and lacks both name 'aten.mm'"),
        ({"contains": ["aten.mm"], "lacks": ["aten.mm.default"]}, "contains and lacks both name 'aten.mm.default'"),
        ({"kernels": True}, "kernels is True; give a number"),
        ({"bytes_at_most": "4K"}, "bytes_at_most is '4K'; give a number of bytes"),
        ({"fallbacks": 1}, "fallbacks is 1; give 0, or the list"),
        ({"kernels": 1, "facts": {"kernels": 2}}, "'kernels' of facts= is what another keyword says already"),
    ],
)
def test_declarations_that_are_refused(declared, text):
    with pytest.raises(ContractError, match=text):
        contract(**declared)


def test_check_returns_a_line_for_each_demand():
    demand = contract(kernels=1, contains=["aten.sin"], lacks=["aten.mm"], bytes_at_most=160, graph_breaks=0)
    assert demand.check(scaled, torch.ones(20), target="cpu_avx2") == [
        "operators.aten.sin: wanted '>=1', got 1",
        "operators.aten.mm: wanted 0, got 0",
        "kernels: wanted 1, got 1",
        "graph_breaks: wanted 0, got 0",
        "bytes.moved: wanted '<=160', got 160",
    ]


def test_the_first_line_says_what_is_there_instead():
    demand = contract(kernels=1, contains=["aten.split_with_sizes"])
    assert first_line_of(demand, lambda x: x[:10].sin() + x[10:], torch.ones(20)) == (
        "<lambda> on cpu_avx2: operators.aten.split_with_sizes: wanted '>=1', got 0: "
        "the graph after the passes has aten.slice.Tensor 2 times, aten.sin, aten.add.Tensor; "
        "1 of 2 requirements not met"
    )
    text = "in_two_parts on cpu_avx2: graph_breaks: wanted 0, got 1: Call to `torch._dynamo.graph_break()` at "
    assert first_line_of(contract(kernels=1, graph_breaks=0), in_two_parts, torch.ones(20)).startswith(text)


def test_inputs_by_name_in_containers_and_by_position_alone():
    one = contract(kernels=1)
    one.check(scaled, torch.ones(20), named={"factor": 3.0}, target="cpu_avx2")
    one.check(lambda xs, *, by: xs["a"] * by, {"a": torch.ones(20)}, named={"by": torch.ones(20)}, target="cpu_avx2")
    one.check(lambda *xs: xs[0] + xs[1], torch.ones(20), torch.ones(20), target="cpu_avx2")


def test_modules_gradients_modes_and_configuration():
    module, x = torch.nn.Linear(20, 20), torch.ones(7, 20, requires_grad=True)
    contract(facts={"kernels.backward": 0}).check(module, x, target="cpu_avx2")
    contract(facts={"kernels.backward": ">=1"}).check(module, x, target="cpu_avx2", grad=True)
    assert module.weight.requires_grad
    assert x.requires_grad
    contract(contains={"aten.mul.Tensor": 1}).check(scaled, torch.ones(20), target="cpu_avx2", mode="inference")
    contract(kernels=2).check(
        lambda x: (x.sin(), x.t().cos()), torch.ones(20, 30), target="cuda_sm90", config={"max_fusion_size": 1}
    )
    with pytest.raises(CaseError, match="mode is 'eval'; it must be one of plain"):
        contract(kernels=1).check(scaled, torch.ones(20), target="cpu_avx2", mode="eval")


def test_a_gpu_that_is_not_here():
    contract(kernels=1, facts={"kinds": ["pointwise"]}).check(scaled, torch.ones(20), target="cuda_sm90")
    with pytest.raises(TargetError, match="unknown target 'cuda_sm9'"):
        contract(kernels=1).check(scaled, torch.ones(20), target="cuda_sm9")


def test_an_operator_that_does_not_exist_is_a_mistake():
    """Otherwise a wrong name in `lacks` would always hold."""
    with pytest.raises(DeclarationError, match=r"no operator 'aten.slise'; nearest: aten.slice"):
        contract(lacks=["aten.slise"]).check(scaled, torch.ones(20), target="cpu_avx2")
    contract(lacks=["a_library_that_is_not_imported.norm"]).check(scaled, torch.ones(20), target="cpu_avx2")


def test_in_a_case_beside_other_facts():
    demand = {"all": contract(contains=["aten.sin"], kernels=1), "cpu": {"kernels": 2, "vectorised": "yes"}}

    @case(x=tensor(20), require=demand)
    def test_sine(x):
        return x.sin()

    [sine] = test_sine.cases
    validate([sine], targets().values(), NAMES)
    found = facts_of(lambda x: x.sin(), x=tensor(20))
    with pytest.raises(RequirementError) as caught:
        check(sine, targets()["cpu_avx512"], found)
    first = str(caught.value).split("\n")[0]
    assert first == "contracts/sine on cpu_avx512: kernels: wanted 2, got 1: sin; 1 of 3 requirements not met"


def test_the_operators_of_inner_graphs_count():
    def branches(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    contract(contains={"aten.sin": 1, "aten.cos": 1, "cond": 1}).check(branches, torch.ones(20), target="cpu_avx2")


def test_the_first_line_has_the_reasons_of_the_compiler():
    assert first_line_of(contract(fallbacks=0), lambda x: x.sort().values, torch.ones(20)).endswith(
        "fallbacks: wanted [], got ['aten.sort']: aten.sort (the backend has no SORT); 1 of 1 requirements not met"
    )
    said = first_line_of(contract(facts={"vectorised": "yes"}), lambda x: x.flip(-1) + 1, torch.ones(7, 64))
    assert "vectorised: wanted 'yes', got 'no': load index " in said


@pytest.mark.parametrize("target", ["cpu_avx2", "cuda_sm90"])
def test_bits_are_a_demand(target):
    demand = contract(facts={"same_bits": ["run", "batch"]})
    assert demand.check(torch.neg, torch.ones(8, 64), target=target) == ["same_bits: wanted run, batch, got the same"]
    said = first_line_of(demand, torch.mm, torch.ones(8, 64), torch.ones(64, 3), target=target)
    assert "same_bits: wanted run, batch, got batch may differ (structure): 1 of 8 rows a library chooses" in said
    with pytest.raises(DeclarationError, match=r"same_bits is 'run'; write a list of some of these: run, batch"):
        contract(facts={"same_bits": "run"}).check(torch.neg, torch.ones(8), target=target)


def test_a_tensor_from_outside_is_named():
    net = torch.nn.Linear(20, 20)
    with pytest.raises(
        ContractError, match=r"it takes net, a Linear, from outside, which stays on the CPU: give it to"
    ):
        contract(kernels=1).check(lambda x: net(x), torch.ones(20), target="cuda_sm90")  # noqa: PLW0108


def test_without_the_plugin_after_an_import_of_torch():
    script = (
        "import torch\nfrom conformance import contract\n"
        "print(contract(kernels=1).check(torch.sin, torch.ones(20), target='cpu_avx2'))\n"
        "contract(facts={'same_bits': ['run']}).check(torch.sin, torch.ones(20), target='cpu_avx2')\n"
        "print(contract(kernels=1).check(torch.sin, torch.ones(20), target='cuda_sm90'))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout == "['kernels: wanted 1, got 1']\n" * 2, ran.stderr


def test_contracts_and_facts_together():
    both = contract(kernels=1) | contract(graph_breaks=0) | {"kernels": 2}
    assert both == {"kernels": 2, "graph_breaks": 0}
    assert isinstance(both, type(contract(kernels=1)))
