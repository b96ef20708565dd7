"""Interprets kernels of selftests. Import this module after prepare()."""

import time

import torch
import triton

from conformance.capture.emulation.configurations import Configurations
from conformance.capture.emulation.kernels import InterpretedKernel, Wrapper

TYPES = {
    torch.float32: "fp32", torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int32: "i32",
    torch.int64: "i64", torch.int8: "i8", torch.uint8: "u8", torch.bool: "i1", torch.uint32: "u32",
}  # fmt: skip


def run(fn, *args, block=64, seconds=20.0, compiled_in=None, **constants):
    """Launches a kernel in the interpreter. Returns what it ran.

    `args`: the arguments up to xnumel. `block`: XBLOCK. `constants`: the other constants, by name.
    `compiled_in`: the values of arguments that Triton would compile into the kernel, by name.
    """
    names = [name for name in fn.arg_names if name != "XBLOCK" and name not in constants]
    signature = {
        name: f"*{TYPES[value.dtype]}" if isinstance(value, torch.Tensor) else "i32"
        for name, value in zip(names, args, strict=True)
    }
    meta = {"grid_type": "Grid1D"}
    configurations = Configurations([triton.Config({"XBLOCK": block, **constants})], meta)
    kernel = InterpretedKernel(fn, configurations, meta, {"signature": signature, "constants": compiled_in or {}})
    kernel.wrapper = Wrapper(lambda: time.monotonic() + seconds)
    kernel.run(*args, stream=0)
    return kernel.wrapper.extents.report()
