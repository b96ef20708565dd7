"""The patches that leave out what nobody reads: they fit this torch, and a capture is the same without them."""

from __future__ import annotations

import pytest
from capturing import captured

from conformance import tensor
from conformance.capture import unread
from conformance.facts import extract
from conformance.normalize.text import snapshot_text


def scaled_softmax(x):
    return (x.softmax(-1) * 2).relu()


def text(target: str) -> str:
    capture = captured(scaled_softmax, target, grad="x", dynamic=True, x=tensor(64, 100))
    return snapshot_text(capture, extract(capture).lines(), target.partition("_")[0]) + capture.modules[0].ir_pre_fusion


@pytest.mark.parametrize("target", ["cpu_avx512", "cuda_sm90"])
def test_capture_is_the_same_without_the_patches(target, monkeypatch):
    with_patches = text(target)
    monkeypatch.setattr(unread, "patches", lambda **_: [])
    assert text(target) == with_patches
