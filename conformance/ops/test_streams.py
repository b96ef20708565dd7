"""streams: a program puts work on streams of its own, and says what waits for what."""

import torch

from conformance import case, tensor

#: Before torch 2.13, the graph breaks.
ONLY = {"cuda_sm90 torch>=2.13": "what calls kernels differs little between GPUs"}
#: The emulation runs on the CPU, which has no streams.
CODE = ("requirements", "code")


def current():
    return torch.accelerator.current_stream()


def product_on_a_stream(x):
    stream = torch.Stream(device=x.device)
    y = x.cos()
    stream.wait_stream(current())
    with stream:
        product = y.sin() @ x.T
    current().wait_stream(stream)
    return y, product


# The product is on another stream. No kernel is fused with one of another stream, so there are four.
@case(
    x=tensor(8, 16),
    only=ONLY,
    checks=CODE,
    require={"all": {"graph_breaks": 0, "kernels": 4, "extern": ["mm"], "fallbacks.streams.wait_stream": 2}},
)
def test_one_stream(x):
    y, product = product_on_a_stream(x)
    return y + 1, product + 1


# What is independent is on two streams, with dynamic shapes.
@case(
    x=tensor(8, 16),
    y=tensor(30),
    dynamic=True,
    only=ONLY,
    checks=CODE,
    require={"all": {"graph_breaks": 0, "kernels": 4, "fallbacks.streams.wait_stream": 4}},
)
def test_two_streams(x, y):
    first, second = torch.Stream(device=x.device), torch.Stream(device=x.device)
    first.wait_stream(current())
    second.wait_stream(current())
    with first:
        x = x.sum(0).cos()
    with second:
        y = y.exp() + y.mean()
    current().wait_stream(first)
    current().wait_stream(second)
    return x * 2, y * 2


# Each stream waits for an event that the other one records.
@case(
    x=tensor(8, 16),
    only=ONLY,
    checks=CODE,
    require={
        "all": {
            "graph_breaks": 0,
            "fallbacks.streams.record_event": 2,
            "fallbacks.streams.wait_event": 2,
        },
        "torch<2.15": {"kernels": 3},
        "torch>=2.15": {"kernels": 4},
    },
)
def test_events(x):
    stream = torch.Stream(device=x.device)
    before, after = torch.Event(device=x.device), torch.Event(device=x.device)
    y = x.cos()
    before.record()
    with stream:
        before.wait()
        product = y.sin() @ x.T
        after.record()
    after.wait()
    return y + 1, product + 1


# What a stream computes has its backward on that stream.
@case(x=tensor(8, 16), grad=True, only=ONLY, checks=CODE, require={"all": {"graph_breaks": 0}})
def test_gradients(x):
    return product_on_a_stream(x)[1] * 2
