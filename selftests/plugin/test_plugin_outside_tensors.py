"""A module or a tensor that a case takes from outside: the failure names it and says what to do instead."""

import pytest
from suites import NATIVE, Suite

from conformance.devices import environment

MODULE = """
import torch
from conformance import case, module, tensor

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.linear(x).relu()

NET = Net()

@case(x=tensor(3, 8))
def test_outside(x):
    return NET(x)

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(8)

    def forward(self, x):
        return torch.mm(x, self.scale[:, None])

@case(net=module(Scaled), x=tensor(3, 8))
def test_attribute(net, x):
    return net(x)

# On a GPU, compiled code broadcasts where eager refuses the bias of another weight: a known failure of addmm.
@case(
    x=tensor(3, 8), weight=tensor(4, 8), bias=tensor(4),
    numerics={"without": {"refused": "addmm is lowered as a sum"}},
)
def test_called_with_inputs(x, weight, bias):
    return torch.func.functional_call(NET, {"linear.weight": weight, "linear.bias": bias}, (x,))
"""

ADVICE = "the function takes NET, a Net, from outside, which stays on the CPU and keeps its dtype: declare it as an"
ATTRIBUTE = "net.scale is a tensor, but neither a parameter nor a buffer, so it stays on the CPU and keeps its dtype"


@pytest.mark.long("its runs are real processes that import torch")
@pytest.mark.parametrize(
    "target",
    [
        NATIVE,
        pytest.param(
            "cuda_sm90",
            marks=pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed"),
        ),
    ],
)
def test_module(tmp_path, target):
    suite = Suite(tmp_path)
    suite.write("ops/test_net.py", MODULE)
    ran = suite.run("--target", target, "--checks", "numerics").ends(1)
    ran.has(ADVICE, ATTRIBUTE, "3 items = 1 passed + 2 failed")
    ran.has_not("has no float64 reference", "Developer debug context")


@pytest.mark.long("its runs are real processes that import torch")
def test_runs_are_hidden_from_git(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_net.py", MODULE)
    suite.run("--target", NATIVE, "--checks", "requirements").ends(0)
    assert (tmp_path / ".conformance" / ".gitignore").read_text().splitlines()[-1] == "*"
