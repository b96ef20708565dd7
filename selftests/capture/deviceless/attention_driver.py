"""Prints which attention operators PyTorch calls on pretended devices. test_attention_choice.py runs it.

`python attention_driver.py LIBRARY` reads a JSON list of [target, case] from stdin and writes, for each, the list of
operators called forward and backward, or the error. The library has to be loaded before torch is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import json
import sys
import warnings
from pathlib import Path
from typing import Any

DEVICES = {"cuda": 1, "xpu": 2}


def load(library: str) -> ctypes.CDLL:
    """Loads the library of the pretended devices, then imports torch."""
    spec = importlib.util.find_spec("torch")
    root = Path(next(iter(spec.submodule_search_locations)))
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(root / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    loaded = ctypes.CDLL(library)
    loaded.pretend_attention.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    loaded.pretend_hooks(3)
    import torch  # noqa: F401

    loaded.pretend_guards(3)
    return loaded


def called(device: str, case: dict[str, Any]) -> list[str]:  # noqa: C901 - one step after another
    """The attention operators that `case` calls: names without the common prefix, '!' before those of the backward."""
    import torch
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils._python_dispatch import TorchDispatchMode

    names: list[str] = []

    class Log(TorchDispatchMode):
        backward = False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            if name == "scaled_dot_product_attention":  # in inference mode it is not decomposed
                with self:
                    return func.decompose(*args, **(kwargs or {}))
            if "attention" in name or (case.get("everything") and func.namespace == "aten"):
                names.append("!" * self.backward + name.removeprefix("_scaled_dot_product_"))
            return func(*args, **(kwargs or {}))

    dtype = getattr(torch, case.get("dtype", "float16"))
    b, h, q, k, d = (case.get(key, default) for key, default in zip("bhqkd", (2, 4, 128, 128, 64), strict=True))
    kv_heads, dv = case.get("kv_heads", h), case.get("dv", d)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv() if case.get("dynamic") else None)

    @functools.cache
    def symbol(size: int) -> torch.SymInt:
        created = mode.shape_env.create_symbol(size, ConstantSource(f"size_{size}"))
        return mode.shape_env.create_symintnode(created, hint=size)

    def tensor(*shape: int, dtype: torch.dtype = dtype, grad: bool = False, offset: int = 0) -> torch.Tensor:
        if case.get("dynamic"):
            return torch.empty([symbol(size) for size in shape], dtype=dtype, device=device)
        flat = torch.empty(offset + torch.Size(shape).numel(), dtype=dtype, device=device)
        return flat[offset:].view(shape).requires_grad_(grad)

    log = Log()
    backends = [getattr(SDPBackend, name) for name in case.get("backends", [])]
    with contextlib.ExitStack() as stack:
        if backends:
            stack.enter_context(sdpa_kernel(backends, set_priority=case.get("priority", False)))
        if case.get("deterministic"):
            torch.use_deterministic_algorithms(True)
            stack.callback(torch.use_deterministic_algorithms, False)
        if case.get("inference"):
            stack.enter_context(torch.inference_mode())
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(mode)
        grad = case.get("grad", False)
        shape = (b, h, q, d) if case.get("dims", 4) == 4 else (h, q, d)
        query = tensor(*shape, grad=grad, offset=case.get("offset", 0))
        lead = shape[:-3]
        key = tensor(*lead, kv_heads, k, d, grad=grad)
        value = tensor(*lead, kv_heads, k, dv, grad=grad)
        masks = {"bool": torch.bool, "float": dtype}
        mask = tensor(*case.get("mask_shape", (q, k)), dtype=masks[case["mask"]]) if "mask" in case else None
        if case.get("transposed"):
            query = query.transpose(-1, -2).contiguous().transpose(-1, -2)
        with log:
            out = torch.nn.functional.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=mask,
                dropout_p=case.get("dropout", 0.0),
                is_causal=case.get("causal", False),
                scale=case.get("scale"),
                enable_gqa=case.get("gqa", False),
            )
            expected = (*shape[:-1], dv)
            if not case.get("dynamic") and tuple(out.shape) != expected:
                names.append(f"shape {tuple(out.shape)}")
            if grad:
                log.backward = True
                torch.autograd.grad(out.sum(), [query, key, value])
        if case.get("guards"):
            names += sorted(str(guard.expr) for guard in mode.shape_env.guards)
    return names or ["math"]


def main() -> None:
    library = load(sys.argv[1])
    answers = []
    for (device, major, minor, cudnn, *rocm), case in json.load(sys.stdin):
        library.pretend_rocm(bool(rocm))
        library.pretend(DEVICES[device])
        if "--as-built" not in sys.argv:  # --as-built: the build's own choice, to compare with
            library.pretend_attention(DEVICES[device], major, minor, cudnn)
        try:
            answers.append(called(device, case))
        except Exception as error:  # noqa: BLE001 - the caller compares it
            answers.append([f"{type(error).__name__}: {error}"[:300]])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
