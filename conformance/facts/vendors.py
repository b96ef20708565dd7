"""Facts that a vendor's plugin adds for its device."""

from __future__ import annotations

from conformance.capture.model import Capture
from conformance.devices.vendor_devices import vendor_devices
from conformance.facts.model import Fact


def of_vendors(capture: Capture) -> dict[str, Fact]:
    """The facts of the vendors whose devices the capture's modules are for, by name."""
    devices = {device for module in capture.modules for device in module.observed["devices"]}
    texts = [module.code for module in capture.modules]
    found = {}
    for device in sorted(devices & vendor_devices().keys()):
        for name, read in vendor_devices()[device].facts.items():
            value, line = read(texts)
            found[name] = Fact(value, (line,))
    return found
