"""The plugin: tells conformance of the device type mps, whose code it generates, builds and runs without a Mac."""

from __future__ import annotations

from pathlib import Path

from conformance import VendorDevice
from conformance_metal import facts
from conformance_metal.emulation import emulating
from conformance_metal.pretence import pretending, register

DEVICE = VendorDevice(
    name="mps",
    targets=Path(__file__).with_name("targets.toml"),
    kernels="metal",
    scheduling="torch._inductor.codegen.mps:MetalScheduling",
    stages=("deviceless", "emulated"),
    register=register,
    pretending=pretending,
    emulating=emulating,
    facts=facts.FACTS,
    refusals={
        "KeyError: torch.float64": "mps has no float64",
        "float64 is not supported by MPS": "mps has no float64",
        "KeyError: torch.complex": "Inductor generates no Metal for complex numbers",
        "InductorError: NotImplementedError": "Inductor has no Metal for one of the operators",
        "0 active drivers": "Triton has no backend for mps",
    },
)
