"""The short form of what compiling raises: few lines, with the operator and the author's line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._inductor import lowering

from conformance.harness.item.exception_text import MOST, short_form, short_sections

HERE = Path(__file__)


def inner(x):
    return x.sin()


def outer(x):
    return inner(x * 2) + 1


def raised(function, *arguments):
    with pytest.raises(Exception) as caught:
        function(*arguments)
    return caught.value


def test_a_lowering_that_raises(monkeypatch):
    def planted(*_):
        raise NotImplementedError("no such thing\nand why")

    monkeypatch.setitem(lowering.lowerings, torch.ops.aten.sin.default, planted)
    torch.compiler.reset()
    error = raised(torch.compile(outer), torch.ones(3, 4))
    assert len(str(error).splitlines()) > 40, "this is what the short form is for"
    lines = short_form(error, HERE)
    assert lines[:3] == [
        "InductorError: LoweringException: NotImplementedError: no such thing",
        "and why",
        "operator: aten.sin.default",
    ]
    assert lines[3].endswith("test_exception_text.py:17, inner: return x.sin()")
    assert len(lines) == 4 or lines[4].startswith("raised in torch/")


def test_an_operator_that_dynamo_cannot_trace():
    torch.compiler.reset()
    lines = short_form(raised(torch.compile(lambda x: x.view(7, 7)), torch.ones(3, 4)), HERE)
    text = "\n".join(lines)
    assert "operator: view" in text
    assert "x.view(7, 7)" in text
    assert "Hint: Your code may result" not in text
    assert len(lines) <= MOST


def test_what_the_author_raises():
    def refuses(x):
        raise ValueError("not today")

    lines = short_form(raised(refuses, 1), HERE)
    assert lines[0] == "ValueError: not today"
    assert lines[1].endswith('refuses: raise ValueError("not today")')
    assert len(lines) == 2


def test_a_long_message_keeps_its_ends_and_its_errors():
    text = "\n".join([f"line {number}" for number in range(300)])
    error = RuntimeError(text.replace("line 150", "kernel.cpp:7: error: no such name"))
    lines = short_form(error, HERE)
    assert lines[0] == "RuntimeError: line 0"
    assert "kernel.cpp:7: error: no such name" in lines
    assert lines[-1] == "line 299"
    assert any(line.startswith("… ") for line in lines)
    assert len(lines) <= MOST
    assert max(map(len, short_form(RuntimeError("x" * 5000), HERE))) < 500


def test_what_torch_logs_beside_it_is_short():
    log = "\n".join(["failed while attempting", *("  a frame" for _ in range(30)), "raise it", "RuntimeError: no"])
    printed = "\n".join("mine" for _ in range(9))
    sections = short_sections([("Captured stderr call", log), ("Captured stdout call", printed), ("log", "a\nb")])
    assert dict(sections) == {
        "Captured stderr call": "failed while attempting\n… 30 more lines: pytest -v shows them …\n"
        "raise it\nRuntimeError: no",
        "Captured stdout call": printed,
        "log": "a\nb",
    }
