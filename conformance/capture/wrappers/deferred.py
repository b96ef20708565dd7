"""Wrapper modules that are loaded after the capture: loading one compiles its kernels.

So the kernels of several captures can be compiled together, and numerics that need not run compile nothing. Until a
module is loaded, calls of it run the lowered graph eagerly.

Private parts of torch: GraphLowering.compile_to_module, and PyCodeCache.load_by_key_path,
with which it loads the module that it has written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch, applied
from conformance.capture.toolchain.kernel_batch import KernelLater
from conformance.capture.wrappers.unloaded import eager_function, unrecorded_runner


class DeferredModules:
    """The wrapper modules of one capture, in the order in which Inductor generated them."""

    def __init__(self) -> None:
        self._modules: list[_DeferredModule] = []

    def patch(self, is_over: Callable[[], bool]) -> Patch:
        """Defers loading. `is_over`: whether the capture is over: modules of later compiles are loaded at once."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def compile_to_module(graph: Any) -> Any:
                if is_over():
                    return original(graph)
                with applied([Patch(_LOAD, self._wrap_load, "the capture's kernels are compiled after it")]):
                    module = original(graph)
                if isinstance(module, _DeferredModule):
                    module.run_eagerly = eager_function(graph)
                return module

            return compile_to_module

        return Patch("torch._inductor.graph:GraphLowering.compile_to_module", wrap, "modules are loaded later")

    def _wrap_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_by_key_path(key: str, path: str, *args: Any, **kwargs: Any) -> Any:
            module = _DeferredModule(path, lambda: original(key, path, *args, **kwargs))
            self._modules.append(module)
            return module

        return load_by_key_path

    def load(self) -> None:
        """Loads all modules, which compiles their kernels. Raises what compiling raises. Later calls do nothing."""
        for module in self._modules:
            module.load()

    def collect_kernels(self) -> None:
        """Loads all modules inside KernelBatch.collecting(). Their calls still run the lowered graphs."""
        for module in self._modules:
            module.load_only()


_LOAD = "torch._inductor.codecache:PyCodeCache.load_by_key_path"


class _DeferredModule:
    """What Inductor uses of a wrapper module. `run_eagerly`: runs the lowered graph."""

    def __init__(self, path: str, load: Callable[[], Any]) -> None:
        self.__file__ = path
        self.__name__ = "deferred"
        self.runner = unrecorded_runner()
        self.run_eagerly: Callable[[list[Any]], Any] | None = None
        self._load = load
        self._module: Any = None
        self._is_ready = False

    def load_only(self) -> None:
        if self._module is None:
            self._module = self._load()

    def load(self) -> None:
        self.load_only()
        if not self._is_ready:
            KernelLater.replace_in(vars(self._module))
            self._is_ready = True

    def call(self, args: list[Any]) -> Any:
        if self._is_ready or self.run_eagerly is None:
            self.load()
            return self._module.call(args)
        return self.run_eagerly(args)
