"""Steps of torch.optim without a GPU: in-place operators of lists, and `capturable=True` where float64 is computed."""

import pytest

from conformance import case, tensor
from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)
prepare()

import dataclasses  # noqa: E402 - after prepare()
import operator  # noqa: E402

import torch  # noqa: E402
from torch.optim.adam import adam  # noqa: E402

from conformance.capture.isolation import isolated  # noqa: E402
from conformance.capture.observers.kernels import observing  # noqa: E402
from conformance.capture.wrappers import unloaded  # noqa: E402
from conformance.compiler.case_request import CaseRequest, capture  # noqa: E402
from conformance.devices.targets import targets  # noqa: E402
from conformance.numerics.check import NumericsError, check_numerics  # noqa: E402

SM90, CPU = targets()["cuda_sm90"], targets()["cpu_avx2"]


def test_a_result_of_an_in_place_foreach_operator_is_what_it_changed():
    """As Inductor leaves the graph: it unpacks what the operator, eagerly, does not return."""
    graph = torch.fx.Graph()
    first, second = graph.placeholder("first"), graph.placeholder("second")
    added = graph.call_function(torch.ops.aten._foreach_add_.Scalar, ([first, second], 1))
    halves = graph.call_function(torch.ops.aten._foreach_div.Scalar, ([first, second], 2))
    second_half = graph.call_function(operator.getitem, (halves, 1))
    graph.call_function(operator.getitem, (added, 0))  # nobody uses it
    graph.output((graph.call_function(operator.getitem, (added, 1)), second_half))
    lowered = unloaded._graph_to_call(torch.fx.GraphModule(torch.nn.Module(), graph))
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    changed, half = lowered(one, two)
    assert changed is two
    assert (one, two, half) == (2, 3, 1.5)


def stepped(p, q, g, h, mean_p, mean_q, square_p, square_q, step_p, step_q):
    states = [[p, q], [g, h], [mean_p, mean_q], [square_p, square_q], [], [step_p, step_q]]
    numbers = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.01, "eps": 1e-8}
    adam(*states, foreach=True, capturable=True, amsgrad=False, maximize=False, **numbers)


def test_a_capturable_step_agrees_with_eager_and_float64():
    a, b = tensor(4, 5), tensor(7)
    c, d = tensor(4, 5, low=0.0625, high=1), tensor(7, low=0.0625, high=1)
    step = tensor(shape=(), low=1, high=9)
    declared = {"p": a, "q": b, "g": a, "h": b, "mean_p": a, "mean_q": b, "square_p": c, "square_q": d}
    overflow = {"without": {"full_range": "a square overflows"}}

    @case(**declared, step_p=step, step_q=step, numerics=overflow)
    def test_step(p, q, g, h, mean_p, mean_q, square_p, square_q, step_p, step_q):
        stepped(p, q, g, h, mean_p, mean_q, square_p, square_q, step_p, step_q)

    only = test_step.cases[0]
    with capture(CaseRequest(only, SM90, emulate=True)) as captured:
        comparison = check_numerics(only, captured.compiled, "cuda", SM90.name)
    assert {"p after the call", "square_q after the call", "step_p after the call"} <= {
        name for _, name, _ in comparison.measurements
    }


def test_on_the_cpu_eager_refuses_a_capturable_step_as_ever():
    values = [torch.ones(3) for _ in range(8)]
    with (
        isolated(CPU, "native", {}),
        pytest.raises(AssertionError, match="capturable=True, params and state_steps must"),
    ):
        stepped(*values, torch.ones(()), torch.ones(()))


def test_a_call_that_dynamo_does_not_compile_fails():
    """After 8 recompiles Dynamo would run the function eagerly, and eager agrees with eager."""

    @case(x=tensor(9), numerics={"recompiles": 1, "reason": "planted: it compiles again for each call"})
    def test_counted(x):
        return x + len(calls)

    calls = []

    def function(x):
        calls.append(x)
        return x + 0 * len(calls)

    only = dataclasses.replace(test_counted.cases[0], fn=function)
    limited = isolated(CPU, "native", {"dynamo.recompile_limit": 2})
    with limited, observing(), pytest.raises(NumericsError) as caught:
        check_numerics(only, torch.compile(function, backend="eager"), "cpu")
    assert {(problem.call, problem.rule) for problem in caught.value.problems} >= {("nan", "recompiles")}
    assert "this call was not compiled, and not compared\n  reason        len(" in str(caught.value)
