"""What compiling or a call raises, as pytest shows it: few lines, with the way to all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from suites import SM90, section
from suites import PreloadedSuite as Suite

CONFTEST = """
pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    import logging

    import torch
    from torch._inductor import lowering

    def planted(*arguments):
        logging.getLogger("torch._inductor").error("planted\\n" * 30)
        raise NotImplementedError("no such thing for this device")

    lowering.lowerings[torch.ops.aten.sin.default] = planted
"""
CASES = """
from conformance import case, tensor

def inner(x):
    return x.sin()

@case(x=tensor(20, 30))
def test_refused(x):
    return inner(x * 2 + 1).sum(-1)

@case(x=tensor(20))
def test_mine(x):
    raise ValueError("not today")
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    suite = Suite(tmp_path_factory.mktemp("exceptions"), CONFTEST)
    suite.write("ops/test_it.py", CASES)
    return suite.run(*SM90, "--checks", "requirements").ends(1)


def test_a_compile_failure_is_short(ran):
    lines = section(ran, "test_refused[cuda_sm90]")
    assert len(lines) <= 25, "\n".join(lines)
    assert lines[0] == "InductorError: LoweringException: NotImplementedError: no such thing for this device"
    assert lines[1] == "operator: aten.sin.default"
    assert lines[2].endswith("ops/test_it.py:5, inner: return x.sin()")
    whole = next(line for line in lines if line.startswith("the whole message and traceback: "))
    text = Path(whole.partition(": ")[2]).read_text()
    assert "Traceback (most recent call last)" in text
    assert "TensorBox(" in text
    ran.has("28 more lines: pytest -v shows them")
    ran.has("to reproduce", "artifacts: ", "/failures/it/refused-cuda_sm90").has_not("TensorBox(", "item.py:")


def test_the_last_lines_have_the_type_once(ran):
    [summary] = re.findall(r"^FAILED .*test_refused.*$", ran.text, re.MULTILINE)
    assert "RaisedError" not in summary
    assert summary.count("InductorError") == 1
    ran.has("compile failed: it/refused-cuda_sm90: InductorError: LoweringException: NotImplementedError")


def test_the_authors_own_exception_names_its_line(ran):
    lines = section(ran, "test_mine[cuda_sm90]")
    assert lines[:2] == ["ValueError: not today", 'in ops/test_it.py:13, test_mine: raise ValueError("not today")']
    assert len(lines) <= 25
