"""Compiles generated Triton kernels, one a request: the process behind offline.py.

    python -m conformance.capture.offline.worker    # a request a line on stdin, an answer a line on stdout; both JSON

A request is the text that Inductor hands to async_compile.triton. It is executed, which gives Inductor's autotuner, and
that is told to compile: configurations, signature, alignment of arguments and options are its own. No device is needed:
the text says for which one it is. Private parts of torch, used in 2.11 to 2.15: what `_launches` calls, and `_PATCHES`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conformance.capture.offline import cubin
from conformance.capture.patching.patch import Patch, applied


def main() -> None:
    """Serves until stdin ends. What torch and Triton print goes to stderr: stdout is for answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from torch._inductor import config

    # it would read the binary into a driver that is not there
    for name in ("use_static_triton_launcher", "use_static_cuda_launcher"):
        if hasattr(config, name):
            setattr(config, name, False)
    with applied(_PATCHES):
        answers.write("ready\n")
        answers.flush()
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = _answer(request)
            except Exception as error:  # noqa: BLE001 - whatever compiling raises is the answer
                answer = _told(error, request["text"])
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    start = _seconds()
    kernel = _autotuner(request["name"], request["text"], Path(request["folder"]))
    results = _launches(kernel)
    stage = request["stage"]
    if stage:
        return {"stages": [{"config": _words(each.config), "text": _text(each.kernel, stage)} for each in results]}
    return {"launches": [_launch(each) for each in results], "seconds": _seconds() - start}


def _seconds() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _autotuner(name: str, text: str, folder: Path) -> Any:
    """The kernel as its text makes it: Inductor's CachingAutotuner. Triton reads the source back from its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{os.getpid()}.py"
    path.write_text(text, encoding="utf-8")
    try:
        module = {"__file__": str(path), "__name__": name}
        exec(compile(text, str(path), "exec"), module)  # noqa: S102 - generated code is what is to be compiled
        return module[name]
    finally:
        path.unlink()


def _launches(kernel: Any) -> list[Any]:
    """All configurations that Inductor may launch, compiled; `config` and `kernel` of each.

    Where registers limit the occupancy of a reduction, it also compiles one with half the block, which it knows from
    the driver: here, from the binary.
    """
    kernel._make_launchers = lambda: None  # a launcher loads the binary
    kernel._precompile_worker()
    for result in kernel.compile_results:
        if "cubin" in result.kernel.asm:
            result.kernel.n_regs = _usage(result.kernel).registers
    kernel._dynamic_scale_rblock()
    return kernel.compile_results


def _launch(result: Any) -> dict[str, Any]:
    launch = {"config": _words(result.config), "last": list(result.kernel.asm)[-1]}
    if "cubin" in result.kernel.asm:
        usage, ptx = _usage(result.kernel), result.kernel.asm["ptx"]
        launch |= {
            "registers": usage.registers,
            "spills": usage.local,
            "shared_memory": result.kernel.metadata.shared,
            "widest_access": cubin.widest_access(ptx),
            "tensor_cores": cubin.tensor_cores(ptx),
        }
    return launch


def _usage(compiled: Any) -> cubin.Usage:
    return cubin.usage(compiled.asm["cubin"], compiled.metadata.name)


def _text(compiled: Any, stage: str) -> str | None:
    if stage == "sass" and "cubin" in compiled.asm:
        return cubin.sass(compiled.asm["cubin"])
    text = compiled.asm.get(stage)
    return text if text is None or isinstance(text, str) else cubin.spirv(text)


def _words(config: Any) -> str:
    """`XBLOCK=1024 num_warps=4 num_stages=1`."""
    said = dict(config.kwargs) | {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if getattr(config, "maxnreg", None):
        said["maxnreg"] = config.maxnreg
    return " ".join(f"{name}={value}" for name, value in said.items())


def _told(error: BaseException, text: str) -> dict[str, Any]:
    """What was raised, and the line of the kernel's text that it is about, as far as the error tells."""
    line = getattr(error, "lineno", None)  # a SyntaxError's
    node, source = getattr(error, "node", None), getattr(error, "src", None)  # of Triton's CompilationError
    if node is not None and isinstance(source, str):
        start = text.find(source.strip().split("\n")[0])
        line = text[: max(start, 0)].count("\n") + node.lineno
    said = getattr(error, "error_message", None) or str(error)
    if (cause := error.__cause__) is not None and not getattr(error, "error_message", None):
        said = f"{type(cause).__name__}: {cause}"
    lines = text.split("\n")
    source = lines[line - 1].strip() if line and line <= len(lines) else ""
    return {"raised": f"{type(error).__name__}: {said}".strip(), "line": line, "source": source}


# Triton without the device's backend ----------------------------------------------------------------------------------


def _compile(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_as_far_as_possible(src: Any, target: Any = None, options: Any = None, **kwargs: Any) -> Any:
        from triton.backends import backends

        if any(backend.compiler.supports_target(target) for backend in backends.values()):
            return original(src, target=target, options=options, **kwargs)
        return _to_ttir(src, options)

    return compile_as_far_as_possible


def _to_ttir(src: Any, options: Any) -> Any:
    """Its ttir: the same for all devices but for the names of libdevice's functions, which here are cuda's."""
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
    ttir = str(stages["ttir"](module, {}))
    return SimpleNamespace(asm={"ttir": ttir}, hash="00", metadata=SimpleNamespace(shared=0, name=src.name))


_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_PATCHES = [
    Patch(
        "torch._inductor.runtime.triton_helpers:set_driver_to_gpu",
        lambda _: lambda: None,
        "a kernel's text calls it, and there is no driver: Triton is told the target instead",
    ),
    Patch(f"{_HEURISTICS}:triton.compile", _compile, "without a backend for the device it stops before ttir"),
]


if __name__ == "__main__":
    main()
