"""What torch asks a pretended device: enough to tell whether another target gives the same code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from capturing import captured  # noqa: F401 - it prepares this process
from torch.nn import functional

from conformance.capture.deviceless.device_queries import DeviceQueries, kernel_properties
from conformance.cases.case import Case
from conformance.cases.inputs import tensor
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.targets import targets

SM80, SM90, SM100, PVC, BMG = (
    targets()[name] for name in ("cuda_sm80", "cuda_sm90", "cuda_sm100", "xpu_pvc", "xpu_bmg")
)


def queried(fn, target, config=None, **arguments) -> tuple[DeviceQueries, str]:
    """The questions of a capture, and its code."""
    choices = {name: each.properties for name, each in arguments.items()}
    case = Case("queries", fn.__name__, (), fn, Path(__file__), arguments, choices, config=config or {})
    with capture(CaseRequest(case, target)) as result:
        return result.queries, result.capture.modules[0].code


def double(x):
    return x * 2


def test_a_pointwise_kernel_is_the_same_for_all_targets_of_a_device():
    queries, code = queried(double, SM80, x=tensor(20))
    assert queries.have_the_same_answers(SM90)
    assert queries.have_the_same_answers(SM100)
    assert repr(kernel_properties(SM80)) in code
    assert queried(double, PVC, x=tensor(20))[0].have_the_same_answers(BMG)


def test_kernel_properties_are_what_inductor_writes():
    for target in (SM80, SM90, SM100, PVC, BMG):
        assert f"'device': {kernel_properties(target)!r}" in queried(double, target, x=tensor(20))[1]


def test_a_reduction_that_is_split_by_multiprocessors_is_not():
    def split(x):
        return x.sum()

    assert not queried(split, SM80, x=tensor(1 << 23))[0].have_the_same_answers(SM90)


def test_a_small_reduction_is():
    def small(x):
        return x.sum(1)

    assert queried(small, SM80, x=tensor(64, 40))[0].have_the_same_answers(SM90)


def test_attention_is_chosen_by_the_capability():
    def attention(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v)

    shapes = {name: tensor(1, 2, 64, 64, dtype="f16") for name in "qkv"}
    queries, _ = queried(attention, SM80, **shapes)
    assert "choices of C++" in queries.answers
    assert not queries.have_the_same_answers(SM90)


def test_a_capture_inside_another_one_hides_no_choice():
    def attention(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v)

    inputs = {name: tensor(1, 2, 64, 64, dtype="f16") for name in "qkv"}
    choices = {name: each.properties for name, each in inputs.items()}
    case = Case("queries", "attention", (), attention, Path(__file__), inputs, choices)
    with capture(CaseRequest(case, SM80)) as result:
        queried(double, SM80, x=tensor(20))
    assert "choices of C++" in result.queries.answers


def test_a_case_that_asks_itself_is_not_the_same():
    def ampere(x):
        return x + 1 if torch.cuda.get_device_capability()[0] == 8 else x - 1

    assert not queried(ampere, SM80, x=tensor(20))[0].have_the_same_answers(SM90)


def test_descriptors_for_tma_make_a_difference_where_they_are_asked_for():
    queries, _ = queried(double, SM80, {"triton.use_tensor_descriptor": True}, x=tensor(64, 64))
    assert not queries.have_the_same_answers(SM90)


@pytest.mark.parametrize("name", ["major", "multi_processor_count", "total_memory"])
def test_properties_are_questions(name):
    queries = DeviceQueries(SM80)
    assert getattr(queries.properties(), name) == {"major": 8}.get(name, SM80.properties.get(name))
    assert list(queries.answers) == [f"property {name}"]
    assert not queries.have_the_same_answers(SM90)


def test_a_property_that_is_missing_is_a_question_too():
    queries = DeviceQueries(SM80)
    assert not hasattr(queries.properties(), "no_such_thing")
    assert list(queries.answers) == ["property no_such_thing"]
    assert queries.have_the_same_answers(SM90)


def test_what_is_asked_silently_does_not_count():
    queries = DeviceQueries(SM80)
    with queries.silent():
        assert queries.ask("capability") == (8, 0)
    assert queries.answers == {}
