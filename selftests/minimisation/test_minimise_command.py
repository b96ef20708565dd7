"""`minimise` with a real bug: compiled channel_shuffle loses the layout channels_last. No trial needs C++."""

from __future__ import annotations

import pytest
from suites import NATIVE, run_python

BURIED = """
import torch

def shuffled(x, y):
    z = torch.relu(y) * 2 + 1
    a = torch.nn.functional.channel_shuffle(x.abs(), 2)
    return a, z.sin()

x = torch.randn(2, 8, 6, 10).to(memory_format=torch.channels_last)
torch.compile(shuffled)(x, torch.ones(3))
"""


def minimise(folder, *words):
    return run_python("-m", "conformance", "minimise", *words, folder=folder)


@pytest.mark.long("it minimises a program, with a trial in a process for each step")
@pytest.mark.skipif(not NATIVE, reason="this machine runs no CPU target")
def test_a_buried_bug(tmp_path):
    (tmp_path / "bug.py").write_text(BURIED)
    ran = minimise(tmp_path, "bug.py", "--target", NATIVE, "--output", "small.py", "--trials", "5", "--no-part")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 steps fail: output: strides; the first backend that does is aot_eager" in ran.stdout
    assert "6 steps → 2: first: output: strides" in ran.stdout  # the shuffle alone, of an input, is right
    assert "script: small.py, which fails with torch alone: AssertionError" in ran.stdout
    text = (tmp_path / "small.py").read_text()
    assert "channel_shuffle" in text
    assert "relu" not in text
    assert "conformance" not in text
