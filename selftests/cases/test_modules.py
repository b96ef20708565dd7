"""module(): weights, dtypes, modes, gradients and copies of modules that a case builds, and what is refused."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from conformance import case, module, tensor
from conformance.cases import run_values
from conformance.cases.case import CaseError
from conformance.cases.run_values import RunValues
from conformance.containers import ModuleCopyError, copy_to, leaves_of


def takes_net(net):
    return net


takes_net.__name__ = "test_net"


def cases_of(value, **declared):
    return case(net=value, **declared)(takes_net).cases


def case_of(value, **declared):
    (only,) = cases_of(value, **declared)
    return only


def net_of(value, call=0, **declared):
    return case_of(value, **declared).build(call)["net"]


def weights(net):
    return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


def same(one, other):
    return {name for name in one if torch.equal(one[name], other[name])}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("mask", torch.tensor([0.0, float("-inf"), 1.0]))
        self.register_buffer("order", torch.arange(3))


def test_equal_calls_have_equal_weights_and_others_have_not():
    first, again, other = (weights(net_of(module(Tied), call)) for call in (0, 0, 1))
    assert same(first, again) == set(first)
    assert same(first, other) == {"order"}
    assert other["mask"].isinf().tolist() == [False, True, False]


def test_another_seed_draws_other_weights(monkeypatch):
    before = weights(net_of(module(Tied)))
    monkeypatch.setattr(run_values, "_used", [RunValues(seed=5)])
    after = weights(net_of(module(Tied)))
    assert same(before, after) == {"order", "mask"}


def test_the_global_generator_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    net_of(module(Tied))
    assert torch.equal(torch.rand(1), expected)


def test_constant_parameters_and_buffers_get_other_values():
    net = net_of(module(nn.BatchNorm1d, 33))
    for values in (net.weight, net.bias, net.running_mean, net.running_var):
        assert values.unique().numel() > 20
    assert (net.weight > 0).all()
    assert (net.running_var > 0).all()
    assert net.num_batches_tracked == 0


def test_tied_parameters_stay_tied():
    net = copy_to(net_of(module(Tied)), "cpu")
    assert net.one.weight is net.other.weight
    assert [name for name, _ in leaves_of(net, "net")] == [
        "net.frozen", "net.one.weight", "net.one.bias", "net.other.bias", "net.mask", "net.order",
    ]  # fmt: skip


def test_the_dtype_is_an_axis_and_leaves_integers_alone():
    found = cases_of(module(Tied), dtype=["f32", "bf16"])
    assert [each.id.partition("net-")[2] for each in found] == ["f32", "bf16"]
    narrow, wide = found[1].build()["net"], found[0].build()["net"]
    assert {tensor.dtype for _, tensor in leaves_of(narrow)} == {torch.bfloat16, torch.int64}
    assert torch.equal(wide.one.weight.bfloat16(), narrow.one.weight)
    assert isinstance(narrow.one.weight, nn.Parameter)


def test_a_copy_in_float64():
    net = copy_to(net_of(module(Tied), grad=True), "cpu", widen=True)
    assert net.one.weight.dtype == torch.float64
    assert net.one.weight.requires_grad
    assert net.order.dtype == torch.int64


def test_axes():
    found = cases_of(module({"gru": nn.GRU, "lstm": nn.LSTM}, 3, hidden_size=[4, 5], training=[True, False]))
    assert found[0].axes == ("net.factory", "net.training", "net.hidden_size")
    assert [each.labels for each in found][:2] == [
        ("gru", "train", "hidden_size4"),
        ("gru", "train", "hidden_size5"),
    ]
    net = found[-1].build()["net"]
    assert (type(net), net.hidden_size, net.training) == (nn.LSTM, 5, False)


def test_training_is_left_as_the_factory_left_it():
    assert net_of(module(nn.Linear, 3, 3)).training
    assert not net_of(module(lambda: nn.Linear(3, 3).eval())).training
    assert not net_of(module(nn.Linear, 3, 3), training=False).training


def test_only_parameters_of_named_modules_require_a_gradient():
    assert not any(each.requires_grad for each in net_of(module(Tied)).parameters())
    net = net_of(module(Tied), grad="net")
    assert {name for name, each in net.named_parameters() if not each.requires_grad} == {"frozen"}


def test_classes_of_parametrisations_are_the_same_in_all_calls():
    only = case_of(module(lambda: weight_norm(nn.Linear(3, 3))))
    assert type(only.build(0)["net"]) is type(only.build(1)["net"])


def test_state_of_python_belongs_to_one_copy():
    net = net_of(module(nn.LSTM, 3, 4))
    other = copy_to(net, "cpu")
    assert other._flat_weights[0] is other.weight_ih_l0
    assert other._flat_weights[0] is not net.weight_ih_l0


class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (lambda: module(nn.Linear(3, 3)), CaseError, "module() got a Linear that exists already; give it what makes"),
        (lambda: module(3), CaseError, "module() got a int; give it a class or a function"),
        (lambda: module(lambda: torch.ones(3)), CaseError, "returns a Tensor; it must return a torch.nn.Module"),
        (
            lambda: module(nn.LazyLinear, 3),
            ModuleCopyError,
            "LazyLinear: weight has no size before the first call;",
        ),
        (lambda: module(Locked), ModuleCopyError, "Locked cannot be copied (TypeError: cannot pickle '_thread.lock'"),
    ],
)
def test_refused(value, error, message):
    with pytest.raises(error) as raised:
        net_of(value())
    assert message in str(raised.value)


def test_special_values_leave_weights_alone():
    from conformance.cases.special_values import calls

    def test_both(net, x):
        return net(x)

    (only,) = case(net=module(nn.Linear, 3, 3), x=tensor(5, 3))(test_both).cases
    ordinary = weights(only.build()["net"])
    found = list(calls(only, {}, ()))
    assert found
    for each in found:
        assert same(ordinary, weights(each.arguments["net"])) == set(ordinary)
