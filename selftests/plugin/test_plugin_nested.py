"""Modules and collections as inputs in a project of its own, on every kind of run."""

from __future__ import annotations

import pytest
from suites import NATIVE, run_python
from suites import PreloadedSuite as Suite

from conformance.devices.environment import triton_version

CASES = """
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from conformance import case, group, module, tensor

class Net(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 6)
        self.register_buffer("mean", torch.zeros(features))

    def forward(self, x, *, scale=1.0):
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return self.linear(x - self.mean) * scale

@dataclass
class Batch:
    x: Any
    y: Any

# With one row, the backward reads the changed buffer: https://github.com/pytorch/pytorch/pull/197039.
@case(
    net=module(Net, 5), x=tensor(7, 5), dtype=["f32", "bf16"], grad=True, vary="one_at_a_time",
    numerics={"without": {"size 1": "a known failure of PyTorch"}},
)
def test_net(net, x):
    return net(x, scale=0.5)

@case(
    batch=group({"pair": Batch(tensor(7, 5), [tensor(5), 2.0])}, dtype="f32"),
    grad="batch['pair'].x",
    dynamic=[False, True],
    numerics={"without": {"batch['pair'].y[0]": "it is planted: this excuses nothing"}},
)
def test_batch(batch):
    pair = batch["pair"]
    pair.y[0].add_(1)
    return (pair.x.sin() * pair.y[0], {"twice": pair.y[0] * pair.y[1]})

@case(net=module(nn.Linear, 5, 6), x=tensor(7, 5), mode=["autocast", "inference"], training=False)
def test_modes(net, x):
    return net(x)
"""

WRONG = """
from torch import nn

from conformance import case, module, tensor

@case(net=module(nn.LazyLinear, 3), x=tensor(7, 5))
def test_lazy(net, x):
    return net(x)
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    found = Suite(tmp_path_factory.mktemp("nested"))
    found.write("ops/test_nested.py", CASES)
    return found


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_natively(suite):
    suite.run("--target", NATIVE, "--checks", "numerics").ends(0).has("numerics passed: 6 native")


@pytest.mark.long("it runs several pytest processes, one after the other")
@pytest.mark.skipif(not triton_version(), reason="Triton is not installed")
def test_emulated(suite):
    selected = ("-k", "f32 or static or autocast")
    ran = suite.run("--target", "xpu_pvc", "--checks", "numerics", *selected).ends(0)
    ran.has("numerics passed: 3 emulated")


@pytest.mark.parametrize("option", ["--via=export", "--via=jit_trace", "--backend=aot_eager"])
def test_other_ways(suite, option):
    ran = suite.run("--target", NATIVE, "--checks", "numerics", option).ends(0)
    ran.has("numerics passed: 6 native")


def test_an_audit_names_the_member(suite):
    ran = suite.run("--target", NATIVE, "--checks", "numerics", "--audit", "-k", "static").ends(1)
    ran.has("""numerics["without"]["batch['pair'].y[0]"]""")


def conformance(suite, *arguments):
    return run_python("-m", "conformance", *arguments, folder=suite.root, timeout=200)


def test_show(suite):
    ran = conformance(suite, "show", "ops/test_nested.py::nested/net-f32", "--target", NATIVE, "--graph", "captured")
    assert ran.returncode == 0, ran.stderr
    assert "torch._C._nn.linear" in ran.stdout


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_bench(suite):
    options = ("--min-time", "0.01", "--axis", "dtype=bf16", "--json", "times.json")
    ran = conformance(suite, "bench", "ops/test_nested.py::nested/net-f32", *options)
    assert ran.returncode == 0, ran.stderr
    assert "net-bf16" in (suite.root / "times.json").read_text()


def test_a_lazy_module_gives_one_sentence(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_wrong.py", WRONG)
    ran = suite.run("--target", NATIVE, "--checks", "numerics").ends(1)
    ran.has("LazyLinear: weight has no size before the first call; give the module its sizes, such as nn.Linear(8, 16)")
    ran.has_not("Traceback", "conformance/capture")
