"""Reads modules as Inductor wrote them: samples/<name>-<torch>-<target>.txt."""

from __future__ import annotations

import re
from pathlib import Path

from conformance.normalize.wrapper_modules import normalise

SAMPLES = Path(__file__).with_name("samples")
DEVICE = re.compile(r"(cpu|cuda|xpu)_\w+\Z")
ALL = sorted(path.stem for path in SAMPLES.glob("*.txt"))


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")


def normalised(name: str) -> str:
    return normalise(sample(name), DEVICE.search(name)[1])
