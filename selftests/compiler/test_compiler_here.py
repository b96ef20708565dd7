"""Where a compiler captures: in this process for who watches it, whatever GPU the machine has."""

from __future__ import annotations

import os

import pytest

from conformance.compiler import compiler
from conformance.devices import machine as machine_module
from conformance.devices.environment import HIDE_DEVICES, HIDE_VENDORS
from conformance.devices.machine import Machine
from conformance.devices.targets import targets

H200 = {"capability": [9, 0], "properties": dict(targets()["cuda_sm90"].properties), "ordinals": [0]}
ACME = {"capability": [0, 0], "target": "acme_host", "properties": {"name": "a vendor's device"}, "ordinals": [0]}


@pytest.mark.parametrize(
    ("gpus", "target", "kept"),
    [
        ({}, "cuda_sm90", True),
        ({"cuda": H200}, "cuda_sm90", True),
        ({"cuda": H200}, "cpu_avx2", True),
        ({"cuda": H200}, "xpu_bmg", False),
        ({"cuda": H200}, "cuda_sm80", False),
        ({"acme": ACME}, "cuda_sm90", False),
    ],
)
def test_another_gpu_of_the_machine_is_out_of_sight(monkeypatch, gpus, target, kept):
    """With it in sight, another process would capture, and what is watched or exchanged here would not matter."""
    for name in HIDE_DEVICES:
        monkeypatch.setenv(name, "mine")
    monkeypatch.setattr(Machine, "detect", lambda: Machine(("avx2",), gpus, 2))
    monkeypatch.setattr(compiler.Compiler, "prepare", lambda _: None)
    assert compiler.compiler_for(target).machine.gpus == (gpus if kept else {})
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ("mine" if kept else "")


def test_devices_of_vendors_can_be_hidden_too(monkeypatch):
    """A coverage map and a watch see no device: else another process would compile."""
    monkeypatch.setattr(machine_module, "vendor_devices", lambda: pytest.fail("asks for devices"))
    monkeypatch.setenv(HIDE_VENDORS, "1")
    assert machine_module._vendor_gpus() == {}
