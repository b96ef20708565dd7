"""Planted errors in what a compiled function does with modules and collections: the check finds and names each."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import pytest
import torch
from checking import case_of, fails_with
from torch import nn

from conformance import group, module, tensor
from conformance.numerics.check import NumericsError, calls, check_numerics
from conformance.numerics.comparison import Comparison
from conformance.numerics.problem import SIZE_CALLS


class Average(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.1)
        self.steps = self.steps + 1
        self.last = x * 2
        return self.linear(x - self.mean)


@dataclasses.dataclass
class Batch:
    x: Any
    y: Any
    steps: int = 0


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Result:
    loss: Any
    parts: Any = None


def applied(net, x):
    return net(x)


def in_place(batch):
    batch.x.add_(1)
    batch.y = batch.x * 2
    batch.steps += 1
    return batch.y + 1


def rates(state, x):
    state["last"] = x * 2
    del state["first"]
    return x + 1


def results(pair):
    loss = (pair.x * pair.y).sum(-1)
    return {"result": Result(loss, [pair.x.cos(), None, 3]), "mask": None}


AVERAGE = case_of(applied, net=module(Average, 7), x=tensor(5, 7), grad=True)
BATCH = case_of(in_place, batch=group(Batch(tensor(5, 7), tensor(7))))
STATE = case_of(rates, state=group({"first": tensor(3), "kept": tensor(3)}), x=tensor(5))
PAIR = case_of(results, pair=group(Pair(tensor(5, 7), tensor(7))), grad="pair.x")


@pytest.mark.parametrize("a_case", [AVERAGE, BATCH, STATE, PAIR], ids=lambda each: each.name)
def test_the_same_function_passes(a_case):
    compared = check_numerics(a_case, a_case.fn, "cpu")
    assert len(compared.measurements) > 20


def test_what_is_compared():
    names = {name for _, name, _ in check_numerics(AVERAGE, AVERAGE.fn, "cpu").measurements}
    assert names == {
        "output",
        "x after the call",
        *(f"net.{name} after the call" for name in ("linear.weight", "linear.bias", "mean", "steps", "last")),
        *(f"gradient of {name}" for name in ("x", "net.linear.weight", "net.linear.bias")),
    }


# Modules -------------------------------------------------------------------------------------------------------------


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(weight):
        return weight.clone()

    @staticmethod
    def setup_context(*_):
        pass

    @staticmethod
    def backward(_, gradient):
        return gradient * 1.01


def test_a_wrong_gradient_of_a_parameter():
    def compiled(net, x):
        y = Average.forward(net, x)
        weight = net.linear.weight
        return y - x.sub(net.mean) @ weight.T + x.sub(net.mean) @ WrongGradient.apply(weight).T

    with pytest.raises(NumericsError) as caught:
        check_numerics(AVERAGE, compiled, "cpu")
    assert "gradient of net.linear.weight" in {problem.tensor for problem in caught.value.problems}


def test_a_missing_gradient_of_a_parameter():
    def compiled(net, x):
        y = net(x)
        return y - net.linear.bias + net.linear.bias.detach()

    fails_with(AVERAGE, compiled, "gradient of net.linear.bias (float32): 7 of 7 elements are wrong")


def test_a_buffer_that_is_not_updated():
    def compiled(net, x):
        before = net.mean.clone()
        y = net(x)
        net.mean.copy_(before)
        return y

    fails_with(AVERAGE, compiled, "net.mean after the call (float32): 7 of 7 elements are wrong")


def test_a_buffer_that_is_not_replaced():
    def compiled(net, x):
        before = net.steps
        y = net(x)
        net.steps = before
        return y

    fails_with(AVERAGE, compiled, "net.steps after the call (float32): 1 of 1 elements are wrong")


def test_a_parameter_that_is_changed():
    def compiled(net, x):
        y = net(x)
        net.linear.bias.data[2] += 1
        return y

    fails_with(AVERAGE, compiled, "net.linear.bias after the call (float32): 1 of 7 elements are wrong")


def test_an_attribute_that_is_not_set():
    def compiled(net, x):
        y = net(x)
        del net.last
        return y

    fails_with(AVERAGE, compiled, "net.last after the call: missing, and eager has one")


def test_weights_of_the_first_call_are_baked_in():
    first: list[nn.Module] = []

    def compiled(net, x):
        first.append(net)
        y = net(x)
        return y - net.linear.bias + first[0].linear.bias.detach() + (net.linear.bias - net.linear.bias.detach())

    fails_with(AVERAGE, compiled, "second call, with other values: compiled disagrees with eager", "output (float32)")


def test_sizes_of_a_module_stay_and_the_others_change():
    only = case_of(applied, net=module(nn.Linear, 7, 3), x=tensor(5, 7), dynamic=True)
    made = [call for call in calls(only, _policy(only), Comparison()) if call.name in SIZE_CALLS]
    assert [tuple(call.arguments["x"].shape) for call in made] == [(6, 7), (9, 7)]


def _policy(only):
    from conformance.cases.tolerance_policy import Policy

    return Policy.for_case(only, "", "cpu")


# Collections ---------------------------------------------------------------------------------------------------------


def test_a_field_that_eager_alone_changes_in_place():
    def compiled(batch):
        x = batch.x.add(1)
        batch.y = x * 2
        batch.steps += 1
        return batch.y + 1

    fails_with(BATCH, compiled, "batch.x after the call (float32): 35 of 35 elements are wrong")


def test_a_field_that_eager_alone_replaces():
    def compiled(batch):
        y = batch.y
        result = in_place(batch)
        batch.y = y
        return result

    fails_with(BATCH, compiled, "batch.y after the call: shape is (7,), eager's is (5, 7)")


def test_a_number_that_eager_alone_changes():
    def compiled(batch):
        result = in_place(batch)
        batch.steps = 0
        return result

    fails_with(BATCH, compiled, "batch.steps after the call: it is 0, eager's is 1")


def test_a_key_that_compiled_does_not_add_or_remove():
    def forgets(state, x):
        del state["first"]
        return x + 1

    def keeps(state, x):
        state["last"] = x * 2
        return x + 1

    fails_with(
        STATE,
        forgets,
        "state after the call: its structure is dict(kept=Tensor), eager's is dict(kept=Tensor, last=Tensor)",
        "state['last'] after the call: missing, and eager has one",
    )
    fails_with(STATE, keeps, "state['first'] after the call: compiled has one, and eager has none")


def test_outputs_in_containers():
    def lacks_a_key(pair):
        found = results(pair)
        del found["mask"]
        return found

    def another_class(pair):
        found = results(pair)
        return {**found, "result": Pair(found["result"].loss, found["result"].parts)}

    def another_number(pair):
        found = results(pair)
        found["result"].parts[2] = 4
        return found

    def wrong(pair):
        found = results(pair)
        found["result"].parts[0] = found["result"].parts[0] * 1.01
        return found

    fails_with(PAIR, lacks_a_key, "result: its structure is dict(result=Result(loss=Tensor, parts=list(Tensor, None,")
    fails_with(
        PAIR, another_class, "result: its structure is dict(result=Pair(x=Tensor, y=list(Tensor, None, int)), ma"
    )
    fails_with(PAIR, another_number, "output['result'].parts[2]: its value is 4, eager's is 3")
    fails_with(PAIR, wrong, "output['result'].parts[0] (float32): 35 of 35 elements are wrong")


def test_a_gradient_of_a_member():
    def compiled(pair):
        return results(Pair(pair.x.detach() * 0 + pair.x, pair.y))

    check_numerics(PAIR, compiled, "cpu")

    def wrong(pair):
        return results(Pair(WrongGradient.apply(pair.x), pair.y))

    fails_with(PAIR, wrong, "gradient of pair.x (float32): 35 of 35 elements are wrong")
