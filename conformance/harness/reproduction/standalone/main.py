"""Makes the calls, compares them, and ends the script. A part of each `reproduce.py`."""

import contextlib
import platform
import sys
from pathlib import Path

import torch

from conformance.harness.reproduction.standalone.calls import outcome
from conformance.harness.reproduction.standalone.differences import differences

#: The message shows this many differences.
SHOWN = 8


def reproduce(fn, arguments, device, isa, dynamic, mode):
    """Makes the calls of inputs.pt, eagerly and compiled. Raises AssertionError if compiled differs as it did.

    Ends with status 2 where that cannot be seen.
    """
    file = Path(__file__).with_name("inputs.pt")
    if not file.exists():
        stop(f"{file} is missing: it holds the inputs")
    if not is_here(device, isa):
        stop(f"torch {torch.__version__} finds no {isa or device} here; reproduce_with_suite.py needs none")
    contexts = {
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast(torch.device(device).type),
    }
    context = contexts.get(mode, contextlib.nullcontext)
    torch.backends.cudnn.allow_tf32 = False  # else eager's convolutions may round to 10 bits
    compiled = torch.compile(fn, dynamic=dynamic)
    found, raised = [], None
    for call in torch.load(file):
        got, eager = (outcome(each, call, device, arguments, context) for each in (compiled, fn))
        if eager["raised"] and not call["eager raises"]:
            stop(f"eager raises {type(eager['raised']).__name__}: {eager['raised']}")
        for name, rule, text in differences(got, eager, call):
            if (name, rule) in call["failed"] or rule == "raises":
                found.append(": ".join(part for part in (call["title"], name, rule, text) if part))
                raised = got["raised"]
        if raised:
            break
    if found:
        more = [f"… and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise AssertionError("\n".join(["compiled differs from eager", *found[:SHOWN], *more])) from raised
    print("compiled does what eager does")


def is_here(device, isa):
    """Whether this machine runs code for a device. `isa`: of a CPU."""
    if device != "cpu":
        return getattr(torch, device).is_available()
    others = {"neon": ("aarch64", "arm64"), "sve256": ("aarch64",), "vsx": ("ppc64le",), "zvector": ("s390x",)}
    if isa in others:
        return platform.machine() in others[isa]
    if isa == "amx":
        return torch.cpu._is_amx_tile_supported()  # noqa: SLF001 - it has no public name
    capability = torch.backends.cpu.get_cpu_capability()
    return capability.startswith("AVX512" if isa == "avx512" else "AVX")


def stop(reason):
    """Ends the script: it cannot say whether the failure is there."""
    print(f"nothing was compared: {reason}", file=sys.stderr)
    sys.exit(2)
