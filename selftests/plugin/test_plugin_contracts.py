"""A contract in `require=` of cases: the first line in the list of failures and in the run, and known failures."""

from __future__ import annotations

import json

import pytest
from suites import SM90, PreloadedSuite

CASES = """
import torch
from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

from conformance import case, contract, tensor


def doubled_sine(x):
    return (x + x).sin()


class Pass:
    def __init__(self):
        self.patterns = PatternMatcherPass()
        register_replacement(doubled_sine, lambda x: x.cos(), [torch.ones(20)], fwd_only, [self.patterns])

    def __call__(self, graph):
        self.patterns.apply(graph)


ONCE = contract(pattern=doubled_sine, lacks=["aten.sin"])


@case(x=tensor(20, dtype=["f32", "f64"]), config={"post_grad_custom_post_pass": Pass()}, require={"all": ONCE})
def test_kept(x):
    return doubled_sine(x)


@case(x=tensor(20), config={"post_grad_custom_post_pass": Pass()}, require={"all": ONCE | {"kernels": 1}})
def test_lost(x):
    return (x * 2).sin()


@case(x=tensor(20), require={"gpu": ONCE})
def test_known(x):
    return doubled_sine(x)
"""
KNOWN = """
[[failure]]
case = "contracts/known"
check = "requirements"
target = "cuda_sm90"
torch = ">=2.11"
error = "pattern doubled_sine: wanted 1, matched 0"
reason = "the pass is not in config"
issue = "https://github.com/pytorch/pytorch/issues/1"
"""
LOST = (
    "contracts/lost on cuda_sm90: pattern doubled_sine: wanted 1, matched 0: "
    "the graph has aten.mul.Tensor where aten.add.Tensor was (also operators.aten.sin); 2 of 3 requirements not met"
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    made = PreloadedSuite(tmp_path_factory.mktemp("contracts"))
    made.write("ops/test_contracts.py", CASES)
    made.write("ops/known_failures/contracts.toml", KNOWN)
    return made


def test_contracts_of_cases(suite):
    ran = suite.run("--target", "cuda_sm80,cuda_sm90,cpu_avx2", "--checks", "requirements", "--save-run", "them").ends(
        1
    )
    ran.has(LOST, "  pattern doubled_sine: wanted 1, matched 0\n  operators.aten.sin: wanted 0, got 1")
    ran.has(f"requirements failed: contracts/lost-cuda_sm90: RequirementError: {LOST}"[:150])
    ran.has("contracts/known on cuda_sm80: pattern doubled_sine: wanted 1, matched 0: no pass of this compile has the")
    ran.has_not("contracts/kept on", "contracts/known on cpu_avx2", "contracts/known on cuda_sm90")
    ran.has("12 items = 7 passed + 4 failed + 1 known failures")
    [item] = (suite.root / ".conformance/runs/them/items/contracts").glob("lost-cuda_sm90.json")
    assert json.loads(item.read_text())["checks"]["requirements"]["detail"] == f"RequirementError: {LOST}"


def test_two_patterns_of_one_name_are_refused(suite):
    suite.write(
        "ops/test_twice.py",
        "from conformance import case, contract, tensor\n"
        "A, B = contract(pattern='a', name='n'), contract(pattern='b', name='n')\n"
        "@case(x=tensor(20), require={'all': A, 'cpu': B})\n"
        "def test_it(x):\n    return x + 1\n",
    )
    ran = suite.run(*SM90, "--checks", "requirements", "ops/test_twice.py").ends(4)
    ran.has("two patterns are named 'n'; give one of them another name: contract(pattern=…, name='…')")
