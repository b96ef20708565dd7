"""module_state: modules that change their buffers, whose parameters are tied, made of others, or one of several."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from conformance import case, module, references, tensor

ONE_GRAPH = {"graph_breaks": 0}


# Training changes running_mean, running_var and num_batches_tracked.
@case(
    net=module(lambda: nn.Sequential(nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5), nn.ReLU())),
    x=tensor(3, 3, 9, 11),
    training=[True, False],
    require={"all": ONE_GRAPH},
    numerics={"for": {"gpu train": {"without": {"huge": "the square of a large number overflows"}}}},
)
def test_conv_batch_norm(net, x):
    return net(x)


@case(
    net=module(lambda: nn.Sequential(nn.Linear(33, 17, bias=False), nn.BatchNorm1d(17), nn.ReLU())),
    x=tensor(13, 33),
    grad=True,
    dynamic=[False, True],
    require={"all": ONE_GRAPH},
)
def test_linear_batch_norm(net, x):
    return net(x)


class Average(nn.Module):
    """A moving average: one buffer is changed in place, and one is replaced. The last input is kept."""

    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("steps", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.1)
        self.steps = self.steps + 1
        self.last = x.relu()
        return x - self.mean / self.steps


@case(net=module(Average, 33), x=tensor(7, 33), dtype=["f32", "f16"], require={"all": ONE_GRAPH | {"fallbacks": []}})
def test_moving_average(net, x):
    return net(x)


class Centred(nn.Module):
    """A layer of inputs without their moving average."""

    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, 6)
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.1)
        return self.layer(x - self.mean)


@case(net=module(Centred, 5), x=tensor(1, 5), grad="net", checks=("numerics",))
def test_centred(net, x):
    """A user's report: https://github.com/pytorch/pytorch/pull/197039."""
    return net(x)


class Tied(nn.Module):
    """The first and the last layer have one weight."""

    def __init__(self, outer, inner):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(outer, inner), nn.Linear(inner, outer), nn.Linear(outer, inner)
        self.last.weight = self.first.weight

    def forward(self, x, *, scale=1.0):
        return self.last(self.middle(self.first(x).tanh()).tanh()) * scale


@case(
    net=module(Tied, 33, 17),
    x=tensor(7, 33),
    grad=True,
    require={"all": ONE_GRAPH | {"fallbacks": []}},
)
def test_tied_weights(net, x):
    return net(x, scale=0.5)


@case(
    net=module(lambda: weight_norm(nn.Linear(33, 17))),
    x=tensor(7, 33),
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_weight_norm(net, x):
    return net(x)


class Hooked(nn.Module):
    """Hooks change the input and the output of the layer."""

    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.shift = nn.Parameter(torch.ones(features))
        self.linear.register_forward_pre_hook(self.shifted)
        self.linear.register_forward_hook(lambda _, inputs, output: output + inputs[0])

    def shifted(self, _, inputs):
        return (inputs[0] + self.shift,)

    def forward(self, x):
        return self.linear(x)


@case(net=module(Hooked, 33), x=tensor(7, 33), grad=True, require={"all": ONE_GRAPH})
def test_hooks(net, x):
    return net(x)


# The row of padding gets no gradient.
@case(
    net=module(nn.Embedding, 51, 17, padding_idx=3, dtype=["f32", "bf16"]),
    index=tensor(5, 9, dtype="i64", low=0, high=51),
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_embedding(net, index):
    return net(index)


# On the CPU the last state is a view of the output, and in eager it is not: so the output alone is returned.
@case(
    net=module({"lstm": nn.LSTM, "gru": nn.GRU}, 7, 5),
    x=tensor(4, 3, 7),
    config={"dynamo.allow_rnn": True},
    only={"cpu": "on a GPU, eager calls fused cells that the CPU lacks, so they cannot be emulated"},
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_recurrent(net, x):
    return net(x)[0]


class Frozen(nn.Module):
    """The first layer is frozen: its parameters get no gradient."""

    def __init__(self):
        super().__init__()
        self.frozen, self.trained = nn.Linear(33, 17).requires_grad_(False), nn.Linear(17, 5)

    def forward(self, x):
        return self.trained(self.frozen(x).relu())


@case(net=module(Frozen), x=tensor(7, 33), grad="net", mode=["plain", "autocast"], require={"all": ONE_GRAPH})
def test_frozen(net, x):
    return net(x)


# One step of training, without an optimizer: the call changes the parameters.
@case(
    net=module(lambda: nn.Sequential(nn.Linear(33, 17), nn.SiLU(), nn.Linear(17, 1))),
    x=tensor(7, 33),
    y=tensor(7, 1),
    require={"all": ONE_GRAPH},
)
def test_training_step(net, x, y):
    parameters = dict(net.named_parameters())

    def loss(parameters):
        return nn.functional.mse_loss(torch.func.functional_call(net, parameters, (x,)), y)

    gradients = torch.func.grad(loss)(parameters)
    for name, parameter in parameters.items():
        parameter.sub_(gradients[name], alpha=0.1)


test_references = references(
    test_conv_batch_norm, test_linear_batch_norm, test_tied_weights, test_embedding, test_weight_norm
)


class Alternating(nn.Module):
    """Adds and subtracts by turns. What it does next is an attribute that is no tensor."""

    def __init__(self):
        super().__init__()
        self.add, self.subtract = object(), object()
        self.turn = self.add

    def forward(self, x):
        if self.turn is self.add:
            self.turn = self.subtract
            return x + 1
        self.turn = self.add
        return x - 1


@case(net=module(Alternating), x=tensor(5, 7), checks=("numerics",))
def test_turns_of_objects(net, x):
    return net(x)
