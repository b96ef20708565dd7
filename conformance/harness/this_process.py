"""For which targets this process can generate code, without pytest's plugin and without a session."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from conformance.devices import environment
from conformance.devices.machine import Machine
from conformance.devices.vendor_devices import deviceless_problem, kernel_language

if TYPE_CHECKING:
    from conformance.devices.targets import Target


@functools.cache
def native_gpus() -> tuple[str, ...]:
    """The GPU device types of this machine."""
    return tuple(Machine.detect().gpus)


def reason_not_pretended(target: Target) -> str:
    """Why no GPU of the target's type can be pretended in this process; "" where one can, and for a CPU.

    On a machine with a GPU, this process pretends none, of any type; that is no reason here.
    """
    from conformance.capture.deviceless.prepare import prepare

    prepared = prepare(native_gpus())
    if target.device == "cpu" or native_gpus():
        return ""
    if kernel_language(target.device) == "triton" and not environment.triton_version():
        return environment.missing_triton_message()
    return "" if target.device in prepared.pretended_devices else prepared.problem


def reason_not_captured(target: Target) -> str:
    """Why this process can generate no code for the target, natively or without the device; "" where it can."""
    from conformance.capture.isolation import patch_problems

    if target.device != "cpu" and Machine.detect().is_native(target):
        return ""
    if problem := deviceless_problem(target.device):
        return f"this machine has no {target.name}, and {problem}"
    if target.device != "cpu" and native_gpus():
        return (
            f"this machine has a GPU ({', '.join(native_gpus())}), and a process that sees one cannot pretend another: "
            "set CUDA_VISIBLE_DEVICES= (empty) for it, or ONEAPI_DEVICE_SELECTOR=opencl:cpu on an Intel GPU"
        )
    return reason_not_pretended(target) or patch_problems([target]).get(target.family, "")
