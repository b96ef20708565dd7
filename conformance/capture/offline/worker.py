"""The worker process behind compiler.py: it compiles one generated Triton kernel per request.

    python -m conformance.capture.offline.worker    # one request a line on stdin, one answer a line on stdout

A request holds the text that Inductor hands to async_compile.triton. The worker executes the text, which creates
Inductor's autotuner, and makes that compile: Inductor chooses configurations, signature, alignment and options. No
device is needed: the text names it. Private parts of torch: what `_compile_configurations`
calls, since Inductor has no public way to compile a kernel without loading it; and `_PATCHES`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conformance.capture.deviceless import rocm_build
from conformance.capture.json_worker import claim_stdout, serve
from conformance.capture.offline import amdgcn, cubin, ttgir
from conformance.capture.patching.patch import Patch, applied


def main() -> None:
    """Serves requests until stdin ends."""
    answers = claim_stdout()
    from torch._inductor import config

    # a static launcher would load the binary into a driver, and there is none
    for name in ("use_static_triton_launcher", "use_static_cuda_launcher"):
        if hasattr(config, name):
            setattr(config, name, False)
    with applied(_PATCHES):
        serve(answers, _answer)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _compile_kernel(request)
    except Exception as error:  # noqa: BLE001 - whatever compiling raises is the answer
        return _error_answer(error, request["text"])


def _compile_kernel(request: dict[str, Any]) -> dict[str, Any]:
    start = _cpu_seconds()
    with rocm_build.as_built() if request["device"] == "rocm" else contextlib.nullcontext():
        kernel = _autotuner(request["name"], request["text"], Path(request["folder"]))
        results = _compile_configurations(kernel)
    stage = request["stage"]
    if stage:
        texts = [{"config": _config_text(each.config), "text": _stage_text(each.kernel, stage)} for each in results]
        return {"stages": texts}
    return {"launches": [_launch(each) for each in results], "seconds": _cpu_seconds() - start}


def _cpu_seconds() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


def _autotuner(name: str, text: str, folder: Path) -> Any:
    """Executes a kernel's text, which creates Inductor's CachingAutotuner. Triton reads the source from the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{os.getpid()}.py"
    path.write_text(text, encoding="utf-8")
    try:
        module = {"__file__": str(path), "__name__": name}
        exec(compile(text, str(path), "exec"), module)  # noqa: S102 - generated code is what is to be compiled
        return module[name]
    finally:
        path.unlink()


def _compile_configurations(kernel: Any) -> list[Any]:
    """Compiles all configurations that Inductor may launch. Returns objects with `config` and `kernel`.

    When registers limit the occupancy of a reduction, Inductor also compiles one with half the block. It asks the
    driver for the registers; here they come from the binary, or from the assembly for AMD.
    """
    kernel._make_launchers = lambda: None  # a launcher would load the binary
    kernel._precompile_worker()
    for result in kernel.compile_results:
        if _is_complete(result.kernel):
            result.kernel.n_regs = _usage(result.kernel).registers
    kernel._dynamic_scale_rblock()
    return kernel.compile_results


def _launch(result: Any) -> dict[str, Any]:
    launch = {"config": _config_text(result.config), "last": list(result.kernel.asm)[-1]}
    if text := result.kernel.asm.get("ttgir") or getattr(result.kernel, "ttgir_of_another", ""):
        launch["combined"] = ttgir.combined(text)
    if _is_complete(result.kernel):
        usage, asm = _usage(result.kernel), result.kernel.asm
        launch |= {
            "registers": usage.registers,
            "spills": usage.local,
            "shared_memory": result.kernel.metadata.shared,
        }
        if "amdgcn" in asm:
            launch["widest_access"] = amdgcn.widest_access(asm["amdgcn"])
            launch["tensor_cores"] = amdgcn.matrix_instructions(asm["amdgcn"])
        else:
            launch["widest_access"] = cubin.widest_access(asm["ptx"])
            launch["tensor_cores"] = cubin.tensor_cores(asm["ptx"])
    return launch


def _is_complete(compiled: Any) -> bool:
    """Whether Triton made a binary of the kernel whose resources can be read."""
    return "cubin" in compiled.asm or "hsaco" in compiled.asm


def _usage(compiled: Any) -> cubin.Usage | amdgcn.Usage:
    if "amdgcn" in compiled.asm:
        return amdgcn.resource_usage(compiled.asm["amdgcn"], compiled.metadata.name)
    return cubin.resource_usage(compiled.asm["cubin"], compiled.metadata.name)


def _stage_text(compiled: Any, stage: str) -> str | None:
    """None where the installed Triton does not reach the stage."""
    if stage == "sass" and "cubin" in compiled.asm:
        return cubin.sass(compiled.asm["cubin"])
    text = compiled.asm.get(stage)
    return text if text is None or isinstance(text, str) else cubin.spirv_words(text)


def _config_text(config: Any) -> str:
    """`XBLOCK=1024 num_warps=4 num_stages=1`."""
    values = dict(config.kwargs) | {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if getattr(config, "maxnreg", None):
        values["maxnreg"] = config.maxnreg
    return " ".join(f"{name}={value}" for name, value in values.items())


def _error_answer(error: BaseException, text: str) -> dict[str, Any]:
    """What compiling raised, and the line of the kernel's text that the error names, if it names one."""
    line = getattr(error, "lineno", None)  # of a SyntaxError
    node, source = getattr(error, "node", None), getattr(error, "src", None)  # of Triton's CompilationError
    if node is not None and isinstance(source, str):
        start = text.find(source.strip().split("\n")[0])
        line = text[: max(start, 0)].count("\n") + node.lineno
    message = getattr(error, "error_message", None) or str(error)
    if (cause := error.__cause__) is not None and not getattr(error, "error_message", None):
        message = f"{type(cause).__name__}: {cause}"
    lines = text.split("\n")
    source = lines[line - 1].strip() if line and line <= len(lines) else ""
    return {"raised": f"{type(error).__name__}: {message}".strip(), "line": line, "source": source}


# Triton without the device's backend ----------------------------------------------------------------------------------


def _compile_to_last_stage(original: Callable[..., Any]) -> Callable[..., Any]:
    def triton_compile(src: Any, target: Any = None, options: Any = None, **kwargs: Any) -> Any:
        from triton.backends import backends

        if any(backend.compiler.supports_target(target) for backend in backends.values()):
            return original(src, target=target, options=options, **kwargs)
        return _compile_to_ttir(src, options)

    return triton_compile


def _compile_to_ttir(src: Any, options: Any) -> Any:
    """Compiles to ttir only, for cuda. For another device, only the names of libdevice's functions would differ.

    `ttgir_of_another`: the ttgir that cuda would get, whose layouts follow from the same alignment and sizes; or "".
    """
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    parsed = backend.parse_options(dict(options))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, src.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation(parsed)
    module = src.make_ir(target, parsed, functions, backend.get_module_map(), context)
    ttir, ttgir_text = str(stages["ttir"](module, {})), ""
    with contextlib.suppress(RuntimeError):  # a pass for cuda need not take what another device's kernel has
        ttgir_text = str(stages["ttgir"](module, {}))
    metadata = SimpleNamespace(shared=0, name=src.name)
    return SimpleNamespace(asm={"ttir": ttir}, ttgir_of_another=ttgir_text, hash="00", metadata=metadata)


_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_PATCHES = [
    Patch(
        "torch._inductor.runtime.triton_helpers:set_driver_to_gpu",
        lambda _: lambda: None,
        "a kernel's text calls it, but there is no driver: the text itself tells Triton the target",
    ),
    Patch(
        f"{_HEURISTICS}:triton.compile",
        _compile_to_last_stage,
        "without a backend for the device, Triton would stop before ttir",
    ),
]


if __name__ == "__main__":
    main()
