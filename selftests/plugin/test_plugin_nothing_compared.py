"""The ways in which a comparison can be empty: none is green, and nothing is stored of it."""

from suites import NATIVE
from suites import PreloadedSuite as Suite

EMPTY = """
import torch
from conformance import case, tensor

GRADIENT = {"x": tensor(20), "grad": True}

@case(x=tensor(20))
def test_no_result(x):
    x.flip(-1)

@case(x=tensor(20))
def test_the_input(x):
    return x

@case(x=tensor(20))
def test_a_number(x):
    return 5

@case(x=tensor(20))
def test_an_empty_list(x):
    return []

@case(x=tensor(0))
def test_no_element(x):
    return x * 2

@case(**GRADIENT)
def test_no_gradient(x):
    with torch.no_grad():
        return x * 2

@case(x=tensor(20))
def test_a_break(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1

@case(x=tensor(20))
def test_outside_of_the_graph(x):
    return torch.compiler.disable(lambda y: y * 2)(x)
"""


def test_each_fails_and_nothing_is_stored(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_empty.py", EMPTY)
    ran = suite.accept("--target", NATIVE, "-n", "0").ends(1)
    ran.has("8 items = 8 failed", "requirements failed: empty/a_break-", "graph_breaks: wanted 0, got 1")
    assert suite.stored() == {}
