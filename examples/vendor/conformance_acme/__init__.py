"""The plugin: tells conformance of the device `acme`. It is all that a vendor writes for conformance, beside data.

The device and its Inductor backend are the package torch_acme, which a vendor has anyway.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from conformance import VendorDevice


def devices_of_this_machine() -> list[str]:
    """The target of each device. A real vendor asks the driver; here, ACME_DEVICES says how many there are."""
    return ["acme_host"] * int(os.environ.get("ACME_DEVICES", "1"))


def register() -> None:
    """Registers the device and its Inductor backend."""
    importlib.import_module("torch_acme")


DEVICE = VendorDevice(
    name="acme",
    targets=Path(__file__).with_name("targets.toml"),
    probe=devices_of_this_machine,
    register=register,
    kernels="cpp",
    selectors=("cpu",),
)
