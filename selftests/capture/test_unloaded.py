"""Graphs that are run eagerly, because their generated wrapper is not loaded."""

from __future__ import annotations

import types

import torch
from torch._inductor.fx_passes.fuse_attention import _sfdp_pattern_3, partialize_and_update_signature

from conformance.capture.observers.pattern_rewrites import pattern_name
from conformance.capture.wrappers.unloaded import eager_function


def test_a_function_that_makes_ir_is_not_called():
    """Inductor replaces some patterns by such functions; without a GraphLowering they fail."""

    def lowering(_value):
        raise AssertionError("it needs Inductor's graph")

    lowering._inductor_lowering_function = True
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    called = graph.call_function(lowering, (x,))
    called.meta["val"] = torch.empty(5, 3, dtype=torch.float16).mT
    graph.output((graph.call_function(torch.ops.aten.cos.default, (called,)), x))
    lowered = types.SimpleNamespace(orig_gm=torch.fx.GraphModule(torch.nn.Module(), graph))

    result, same = eager_function(lowered)([torch.ones(2)])

    assert (result.shape, result.stride(), result.dtype) == ((3, 5), (1, 3), torch.float16)
    assert same.tolist() == [1, 1]
    assert called.target is lowering  # Inductor's own graph stays as it is


def test_an_operator_without_its_weight_is_not_called():
    """Inductor removes a weight that a template has packed anew, and leaves the operator in the graph."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    product = graph.call_function(torch.ops.aten.mm.default, (x, graph.get_attr("weight")))
    product.meta["val"] = torch.empty(2, 3)
    graph.output((product, x))
    module = torch.fx.GraphModule({"weight": torch.ones(4, 3)}, graph)
    del module.weight
    lowered = types.SimpleNamespace(orig_gm=module)

    result, same = eager_function(lowered)([torch.ones(2, 4)])

    assert (result.shape, same.tolist()) == ((2, 3), [[1.0] * 4] * 2)
    assert product.target is torch.ops.aten.mm.default  # Inductor's own graph stays as it is


def test_a_pattern_without_dropout_keeps_its_name():
    """Inductor wraps the searched function to fix its probability."""
    search_fn = partialize_and_update_signature(_sfdp_pattern_3, dropout_p=0.0)

    def check(match):  # register_replacement closes over the searched function in the same way
        return search_fn(match)

    assert pattern_name(types.SimpleNamespace(extra_check=check)) == "fuse_attention.sfdp_pattern_3"


def test_one_of_several_patterns_that_a_function_registers_has_its_own_name():
    def search_fn(x):
        return x

    search_fn.__module__, search_fn.__qualname__ = "torch._inductor.fx_passes.misc_patterns", "_misc_init.<locals>.e8m0"

    def check(match):
        return search_fn(match)

    assert pattern_name(types.SimpleNamespace(extra_check=check)) == "misc_patterns.e8m0"
