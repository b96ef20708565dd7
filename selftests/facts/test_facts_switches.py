"""When Inductor's configuration switches a feature off, the fact of the feature changes, on each device."""

from __future__ import annotations

from typing import Any

import pytest
from capturing import captured
from functions import attention, pointwise, softmax, total

from conformance.cases.inputs import tensor
from conformance.devices.targets import targets
from conformance.facts import extract
from conformance.normalize.text import snapshot_text
from conformance.review.diff import compare_texts

CPU, GPUS = "cpu_avx512", ("cuda_sm90", "xpu_bmg")


def changes(fn, target: str, config: dict[str, Any], **arguments: Any) -> list[str]:
    """The names of the facts that the configuration changes, in the order of the comparison."""
    texts = []
    for each in ({}, config):
        capture = captured(fn, target, config=each, **arguments)
        texts.append(snapshot_text(capture, extract(capture).lines(), targets()[target].device))
    found = compare_texts(*texts)
    assert found is not None, f"nothing changes on {target} with {config}"
    assert found.message.startswith("facts changed:\n")
    return [entry.split()[0] for entry in found.facts]


def chain(x, y):
    return (x + y).softmax(-1) * y


def added(x, y):
    return x @ y + 1


def drawn(x):
    import torch

    return torch.rand_like(x) + x


X, Y = tensor(64, 1000), tensor(64, 1000)
HEADS = tensor(2, 4, 16, 32, dtype="f16")


class TestSwitchedOff:
    @pytest.mark.parametrize("target", [CPU, *GPUS])
    def test_fusion(self, target):
        assert changes(chain, target, {"max_fusion_size": 1}, x=X, y=Y)[0] == "kernels"

    @pytest.mark.parametrize("target", ["cpu_avx2", "cpu_avx512", "cpu_neon"])
    def test_vectorisation(self, target):
        assert changes(pointwise, target, {"cpp.simdlen": 1}, x=X, y=Y) == ["vectorised"]

    @pytest.mark.parametrize("target", [CPU, *GPUS])
    def test_a_pattern(self, target):
        assert "patterns" in changes(attention, target, {"pattern_matcher": False}, q=HEADS, k=HEADS, v=HEADS)

    @pytest.mark.parametrize("target", [CPU, *GPUS])
    def test_a_lowering(self, target):
        assert "fallbacks" in changes(drawn, target, {"fallback_random": True}, x=X)

    @pytest.mark.parametrize("target", [CPU, *GPUS])
    def test_reuse_in_place(self, target):
        square = tensor(64, 64)
        assert changes(added, target, {"inplace_buffers": False}, x=square, y=square) == ["buffers"]

    @pytest.mark.parametrize("target", [CPU, *GPUS])
    def test_reuse_of_freed_buffers(self, target):
        def several(x, y):
            return ((x @ y) @ y) @ y

        square = tensor(64, 64)
        assert changes(several, target, {"allow_buffer_reuse": False}, x=square, y=square) == ["buffers"]

    @pytest.mark.parametrize("target", [CPU, *GPUS])
    def test_pools_of_memory(self, target):
        def several(x, y):
            return ((x @ y) @ y) @ y

        square = tensor(64, 64)
        assert changes(several, target, {"memory_planning": True}, x=square, y=square) == ["buffers"]

    @pytest.mark.parametrize("target", GPUS)
    def test_persistent_reductions(self, target):
        assert changes(softmax, target, {"triton.persistent_reductions": False}, x=X) == ["kernels"]

    @pytest.mark.parametrize("target", GPUS)
    def test_split_reductions(self, target):
        assert changes(total, target, {"split_reductions": False}, x=tensor(4_000_000))[0] == "kernels"
