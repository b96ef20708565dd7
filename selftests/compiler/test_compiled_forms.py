"""A case that is compiled whole, by its repeated blocks, or as an exported program."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from conformance import case, module, tensor
from conformance.compiler.case_request import CaseRequest, capture
from conformance.compiler.compiled_forms import FORMS, CompiledFormError, repeated_blocks
from conformance.devices.targets import targets
from conformance.normalize.wrapper_modules import kernel_texts
from conformance.review.kernel_sets import KernelSets, compared_kernels


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(dim), nn.Linear(dim, dim)

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu()


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList([Block(12) for _ in range(layers)])
        self.head = nn.Sequential(nn.Linear(12, 5), nn.ReLU())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class LibraryModel(nn.Module):
    """Two layers of torch.nn itself, whose frames Dynamo skips."""

    def __init__(self):
        super().__init__()
        layers = [nn.TransformerEncoderLayer(12, 3, 7, dropout=0.0, batch_first=True) for _ in range(2)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


@case(model=module(Model, 3), x=tensor(7, 12), grad=[False, True], dynamic=[False, True], vary="one_at_a_time")
def test_model(model, x):
    return model(x)


@case(model=module(LibraryModel), x=tensor(2, 5, 12), training=True)
def test_library_model(model, x):
    return model(x)


@case(model=module(Model, 1), x=tensor(7, 12))
def test_one_layer(model, x):
    return model(x)


@case(x=tensor(7, 12))
def test_unbound(x):
    return x.new_tensor(range(int(x.sum())))


#: pytest must not run these as tests.
MODELS, (OF_LIBRARY,), (ONE_LAYER,), (NOT_EXPORTED,) = (
    each.cases for each in (test_model, test_library_model, test_one_layer, test_unbound)
)
del test_model, test_library_model, test_one_layer, test_unbound


def kernels(of_case, form, target="cpu_avx2"):
    """The number of graphs, and the kernels as compared_kernels takes them."""
    with capture(CaseRequest(of_case, targets()[target], form=form)) as captured:
        modules = captured.capture.modules
        return len(modules), [each for one in modules for each in kernel_texts(one.code, targets()[target].device)]


@pytest.mark.parametrize("of_case", MODELS, ids=lambda each: each.id)
def test_exported_kernels_are_the_same(of_case):
    (graphs, whole), (_, exported) = (kernels(of_case, form) for form in ("whole", "exported"))
    sets = compared_kernels(whole, exported)
    assert graphs == (2 if of_case.grad else 1)
    assert len(sets.same) == len(whole) > 0
    assert not sets.differ


@pytest.mark.long("it compiles a model of three blocks in two forms")
@pytest.mark.parametrize("of_case", MODELS, ids=lambda each: each.id)
def test_a_block_compiles_once_and_loses_fusion_with_the_next_one(of_case):
    (_, whole), (graphs, regional) = (kernels(of_case, form) for form in ("whole", "regional"))
    assert graphs == (2 if of_case.grad else 1), "the three blocks share their code"
    sets = compared_kernels(whole, regional)
    assert sets.same, "the kernels in a block"
    assert sets.first, "the sum of one block is fused with the norm of the next one"
    assert len(regional) < len(whole)


def test_blocks_of_torch_itself_are_compiled():
    graphs, found = kernels(OF_LIBRARY, "regional")
    assert (graphs, bool(found)) == (1, True)


def test_regional_results_are_those_of_eager():
    torch.manual_seed(0)
    with capture(CaseRequest(MODELS[0], targets()["cpu_avx2"], "native", form="regional")) as captured:
        arguments = MODELS[0].build()
        expected = MODELS[0].fn(**MODELS[0].build())
        assert captured.compiled is not None
        torch.testing.assert_close(captured.compiled(**arguments), expected)


def test_a_case_without_repeated_blocks():
    with pytest.raises(CompiledFormError, match="one_layer: no module among its arguments repeats a block"):
        kernels(ONE_LAYER, "regional")


def test_a_case_that_cannot_be_exported():
    with pytest.raises(CompiledFormError, match=r"unbound: torch\.export cannot export it: "):
        kernels(NOT_EXPORTED, "exported")


def test_repeated_blocks_are_the_outermost():
    model = nn.Sequential(nn.ReLU(), nn.ReLU(), Model(2), Model(2), nn.Linear(3, 3), nn.Linear(3, 3))
    assert list(repeated_blocks([model])) == [model[2], model[3]]
    assert [type(each) for each in repeated_blocks([Model(2)])] == [Block, Block]
    assert list(repeated_blocks([Model(1)])) == []
    assert FORMS[0] == "whole"


def test_kernels_count_as_often_as_they_are_there():
    sets = compared_kernels([("a", "1"), ("b", "1"), ("c", "2")], [("d", "1"), ("e", "3")])
    assert sets == KernelSets(same=["a"], first=["b", "c"], second=["e"])
    assert sets.differ
