"""Programs: written from a graph, and cut."""

from __future__ import annotations

import pytest
import torch
from programs import program_of, result

from conformance.capture.dynamo_graphs import NotWritableError
from conformance.minimisation.program import CutError, EagerRun


def function(x, y):
    a = torch.relu(x).transpose(0, 1)
    largest = a.max(dim=0)
    b = torch.einsum("ij,jk->ik", a, y) + float("inf") * largest.values.sum()
    return b.view(-1)[1:3], torch.nn.functional.interpolate(y[None, None], size=(4, 4), mode="bilinear")


@pytest.fixture(scope="module")
def program():
    return program_of(function, x=torch.rand(3, 4), y=torch.rand(3, 2))


def test_the_text_computes_what_the_function_does(program):
    for one, other in zip(result(program), function(**program.inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_a_step_that_is_left_out_becomes_an_input_with_its_value(program):
    eager = EagerRun(program)
    names = [step.name for step in program.steps]
    cut = eager.cut(names[2:])
    assert set(cut.inputs) == {names[1], "y"}
    assert torch.equal(cut.inputs[names[1]], torch.relu(program.inputs["x"]).T)
    assert cut.inputs[names[1]].stride() == (1, 4)
    for one, other in zip(result(cut), result(program), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_a_tuple_that_is_left_out_takes_its_parts_along(program):
    eager = EagerRun(program)
    pair = next(step.name for step in program.steps if ".max(" in step.expression)
    part = next(step.name for step in program.steps if pair in step.words)
    cut = eager.cut({step.name for step in program.steps} - {pair})
    assert part in cut.inputs
    assert part not in {step.name for step in cut.steps}


def test_values_that_nothing_uses_become_outputs(program):
    eager = EagerRun(program)
    names = [step.name for step in program.steps]
    cut = eager.cut(names[:1])
    assert cut.outputs == (names[0],)
    assert set(cut.inputs) == {"x"}


def test_a_size_that_is_left_out_becomes_a_number():
    def sized(x):
        return x.view(x.size(1), -1)

    program = program_of(sized, x=torch.rand(3, 4))
    assert "view(4, -1)" in program.text


def test_what_an_output_needs(program):
    eager = EagerRun(program)
    needed = eager.needed_for(program.outputs[1:])
    assert program.outputs[1] in needed
    assert program.outputs[0] not in needed


def test_a_step_that_writes_is_needed():
    def writes(x, y):
        z = x.clone()
        z[0] = y
        z.add_(1)
        unused = y * 3
        return z, unused

    program = program_of(writes, x=torch.rand(2), y=torch.tensor(1.0))
    needed = EagerRun(program).needed_for(program.outputs[:1])
    assert {each for step in program.steps for each in [step.name] if "* 3" in step.expression}.isdisjoint(needed)
    assert any("setitem" in step.expression and step.name in needed for step in program.steps)
    assert "    z[0] = y\n" in program.text
    assert torch.equal(result(EagerRun(program).cut(needed, program.outputs[:1])), writes(**program.inputs)[0])


def test_nothing_to_return():
    program = program_of(lambda x: (x + 1) * 2, x=torch.rand(2))
    with pytest.raises(CutError, match="nothing is left"):
        EagerRun(program).cut(())


def test_where_eager_raises():
    def select(x, index):
        return (x + 1).index_select(0, index) * 2

    x, index = torch.rand(2), torch.tensor([5])
    with pytest.raises(Exception, match="index"):
        program_of(select, x=x, index=index)
    from conformance.capture.dynamo_graphs import recorded_compiles, written
    from conformance.minimisation.program import Program

    with recorded_compiles() as recorder, pytest.raises(IndexError):
        torch.compile(select)(x, index)
    eager = EagerRun(Program.of_graph(written(recorder.calls[0])))
    assert isinstance(eager.raised, IndexError)
    assert eager.program.steps[1].name not in eager.values
    assert torch.equal(eager.values[eager.program.steps[0].name], x + 1)


def test_a_graph_inside_a_graph_is_refused():
    def chosen(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    with pytest.raises(NotWritableError, match="higher-order operators are not supported"):
        program_of(chosen, x=torch.rand(2))


def test_an_operator_of_another_package_is_refused():
    @torch.library.custom_op("conformance_minimise::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)
    with pytest.raises(NotWritableError, match="which torch alone does not have"):
        program_of(lambda x: doubled(x) + 1, x=torch.rand(2))


def test_a_tensor_without_storage_is_not_kept():
    def gradient(x):
        return torch.func.grad(lambda each: each.sin().sum())(x)

    program = program_of(gradient, x=torch.rand(3))
    assert EagerRun(program).raised is None
