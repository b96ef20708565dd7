"""Dynamo's observer: the frames that it compiles, and the guard that failed where it compiles one again."""

from __future__ import annotations

import pytest
import torch
from checking import case_of, fails_with

from conformance import tensor
from conformance.capture.observers.dynamo import compiles, function_name, guard_text
from conformance.capture.observers.kernels import observing

#: What Dynamo writes (of torch 2.11 to 2.15), and what is kept of it.
TEXTS = {
    "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 9": (
        "tensor 'x' size mismatch at index 0. expected 8, actual 9"
    ),
    '!0/1/2: len(x) == 1          # return x[0]  # tmp/a/b.py:4 in f\nUser stack trace:\n  File "/tmp/a/b.py"': (
        "len(x) == 1 at `return x[0]`"
    ),
    "1/0: 2 <= x.size()[0] <= 8  # return x.sin()  # a/b.py:2 in f (user code shown is first use of this value--the "
    "guard itself is not due user code but due to 0/1 specialization) and return x[8:]  # a/b.py:3 in f (_dynamo/x.py:2"
    " in evaluate_expr)": "2 <= x.size()[0] <= 8 at `return x[8:]`",
    "0/0: ___check_type_id(k, 140584801369312), type=<class 'int'>  # return x*k  # b.py:2 in f (HINT: type int)": (
        "___check_type_id(k), type=<class 'int'> at `return x*k`"
    ),
    '0/0: ___check_obj_id(k.__code__, 140657467444272), type=<code object f at 0x7fed5e61cc30, file "/tmp/a.py", line '
    "31>  # return k()": "___check_obj_id(k.__code__), type=<code object f> at `return k()`",
    "0/0: BACKEND_MATCH failure: torch.compile detected different backend callables. Cached backend: f (id=0x7f1).": (
        "BACKEND_MATCH failure: torch.compile detected different backend callables."
    ),
    "0/0: G['/tmp/user/model.py'] == x/2/3": "G['model.py'] == x/2/3",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_guard_says_nothing_of_the_machine(text):
    assert guard_text(text) == TEXTS[text]


def test_a_long_guard_is_cut():
    assert len(guard_text("x == 1 and " * 100)) == 200


def test_a_function_that_dynamo_made_has_the_name_of_the_users():
    assert function_name("torch_dynamo_resume_in_f_at_20") == "f after a graph break"
    assert function_name("at_20") == "at_20"


def add_and_break(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_each_frame_that_is_compiled_again_has_its_guard(dynamic):
    torch._dynamo.reset()
    with observing():
        before = compiles()
        compiled = torch.compile(add_and_break, backend="eager", dynamic=dynamic)
        compiled(torch.ones(8))
        first = compiles().since(before)
        compiled(torch.ones(9))
        second = compiles().since(before).since(first)
    assert first.functions == {"add_and_break": 1, "add_and_break after a graph break": 1}
    assert first.reasons() == [f"{name}: no earlier call reached it" for name in first.functions]
    guards = {"add_and_break": "x", "add_and_break after a graph break": "y"}
    expected = [f"{name}: tensor '{of}' size mismatch at index 0. expected 8, actual 9" for name, of in guards.items()]
    assert second.reasons() == ([] if dynamic else expected)
    assert second.frames == len(second.reasons())


def test_the_message_of_a_numerics_check_names_the_guard():
    def double(x):
        return x * 2

    torch._dynamo.reset()
    a_case = case_of(double, x=tensor(20), dynamic=True)
    compiled = torch.compile(double, backend="eager", dynamic=False)
    with observing():
        fails_with(
            a_case,
            compiled,
            "1 frame was compiled again; the code that the first call compiled must serve this call\n"
            "  reason        tensor 'x' size mismatch at index 0. expected 20, actual 21",
        )


def test_a_part_that_only_a_later_call_reaches_has_no_guard():
    def branch(x):
        if x.sum() > 0:
            return x * 2
        return x.sin()

    torch._dynamo.reset()
    with observing():
        compiled = torch.compile(branch, backend="eager")
        compiled(torch.ones(8))
        before = compiles()
        compiled(-torch.ones(8))
        found = compiles().since(before)
    assert found.frames == 1
    assert found.reasons() == ["no earlier call reached it"]
