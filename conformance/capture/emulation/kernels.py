"""Interprets generated kernels on the CPU, with the launch configurations of Inductor's heuristics."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import linecache
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton.language as tl
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.hints import HeuristicType
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.configurations import Configurations
from conformance.capture.emulation.dtypes import storage_dtype
from conformance.capture.emulation.errors import (
    DivergentProgramsError,
    EmulationError,
    NotEmulatedError,
    emulation_error,
)
from conformance.capture.emulation.extents import Extents
from conformance.capture.emulation.grid_barrier import run_with_barriers
from conformance.capture.emulation.memory import Argument
from conformance.capture.emulation.triton_language import shared_language

#: Elements of a block times programs that the interpreter computes at once.
MAX_ELEMENTS_PER_BATCH = 1 << 18
#: A launch of more elements is not interpreted: each operation would take about a second.
MAX_ELEMENTS_PER_LAUNCH = 1 << 24
#: What Inductor passes to a user's kernel in place of a None that is compiled in (UserDefinedTritonKernel of ir.py).
_COMPILED_IN = -1


@dataclass
class Wrapper:
    """The wrapper that launches kernels.

    `deadline`: returns the value of time.monotonic() at which a launch must have ended. `call`: returns the number of
    the wrapper's call that runs now. `extents`: collects what the kernels ran.
    """

    deadline: Callable[[], float]
    call: Callable[[], int] = lambda: 0
    extents: Extents = field(default_factory=Extents)


class InterpretedKernel:
    """Replaces Inductor's CachingAutotuner. `configurations`: those that the calls take."""

    wrapper: Wrapper

    def __init__(
        self, fn: Any, configurations: Configurations, meta: Mapping[str, Any], triton_meta: Mapping[str, Any]
    ) -> None:
        self.fn, self.meta, self.triton_meta = fn, meta, triton_meta
        self.name = fn.fn.__name__
        self._configurations = configurations
        self.config = configurations.largest

    def run(self, *args: Any, **kwargs: Any) -> None:
        """The call in the wrapper: the arguments in order, without those that the configuration sets, and a stream."""
        names = [name for name in self.fn.arg_names if name not in self.config.kwargs and not self._is_constant(name)]
        names += self.meta.get("extra_launcher_args", ())  # the grid of a user's kernel
        arguments = dict(zip(names, args, strict=False)) | kwargs
        self.config = self._configurations.choose(self.wrapper.call(), arguments)
        arguments |= self.config.kwargs
        self._add_constants(arguments)
        grid = triton_heuristics.GridExpr.from_meta(dict(self.meta), self.config).eval_slow(dict(arguments))
        x, y, z = (int(size) for size in grid)
        self._launch(arguments, (x, y, z))

    def _add_constants(self, arguments: dict[str, Any]) -> None:
        """Adds the arguments whose values Triton compiles into the kernel, and which a device therefore ignores.

        Raises EmulationError if the wrapper passes another number than the one that is compiled in.
        """
        for name, value in self.triton_meta.get("constants", {}).items():
            if not isinstance(name, str) or name in self.config.kwargs:
                continue
            passed = arguments.setdefault(name, value)
            if value is None and isinstance(passed, int) and passed == _COMPILED_IN:
                arguments[name] = None
            elif isinstance(passed, (int, float)) and passed != value:
                raise EmulationError(
                    f"{self.name} is called with {name} = {passed}, but it is compiled for {name} = {value}: "
                    "a device would compute with the latter"
                )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotEmulatedError(f"the wrapper uses the attribute {name!r} of a kernel")

    def _launch(self, arguments: Mapping[str, Any], grid: tuple[int, int, int]) -> None:
        language = shared_language()
        size = self._block_size()
        if (elements := size * math.prod(grid)) > MAX_ELEMENTS_PER_LAUNCH:
            raise NotEmulatedError(
                f"{self.name} computes {elements} elements; at most {MAX_ELEMENTS_PER_LAUNCH} are interpreted"
            )
        language.memory.begin_launch(
            grid, self.wrapper.deadline(), fuses=bool(self.triton_meta.get("enable_fp_fusion", True))
        )
        language.iterations.clear()
        programs = np.stack(np.unravel_index(np.arange(math.prod(grid)), grid), axis=1).astype(np.int32)
        at_once = max(1, MAX_ELEMENTS_PER_BATCH // size)
        with language.interpreting(), np.errstate(all="ignore"):
            values = {
                name: self._interpreted_value(name, arguments[name]) for name in self.fn.arg_names if name in arguments
            }
            before = _storage_contents(arguments.values()) if len(programs) > 1 else {}
            for batches in self._batchings(programs, at_once):
                try:
                    self._run(values, batches)
                    break
                except DivergentProgramsError:
                    _restore(before)
        file = self.fn.fn.__code__.co_filename
        iterations = {line: count for (where, line), count in language.iterations.items() if where == file}
        shared_out, looped_over = self._configurations.elements(arguments)
        self.wrapper.extents.of(self.name, file).add(math.prod(grid), iterations, shared_out, looped_over)

    def _is_constant(self, name: str) -> bool:
        """Whether an argument is a constant of the user, which the wrapper does not pass."""
        constants = {parameter.name for parameter in self.fn.params if parameter.is_constexpr}
        return name in constants and name in self.triton_meta.get("constants", {})

    def _block_size(self) -> int:
        """Elements of a block: the product of the constants that have the name of a block size."""
        constants = self.triton_meta.get("constants", {}) | self.config.kwargs
        return math.prod(value for name, value in constants.items() if _is_block(name, value))

    def _batchings(self, programs: np.ndarray, at_once: int) -> Iterator[list[np.ndarray]]:
        """Ways to divide the programs into batches. If programs of a batch diverge, the launch tries the next way.

        `programs`: int32 of shape (n, 3), places in the grid. `at_once`: programs of a batch.
        """
        if self._is_cooperative:
            yield [programs[programs[:, 0] == first] for first in np.unique(programs[:, 0])]
        else:
            yield [programs[start : start + at_once] for start in range(0, len(programs), at_once)]
        yield list(programs[:, None])

    @property
    def _is_cooperative(self) -> bool:
        """Whether the programs along the first axis of the grid wait for each other."""
        return bool(self.triton_meta.get("launch_cooperative_grid")) or "RSPLIT" in self.config.kwargs

    def _run(self, values: Mapping[str, Any], batches: Sequence[np.ndarray]) -> None:
        language = shared_language()
        function = functools.partial(language.function(self.fn.fn), **values)
        try:
            if self._is_cooperative:
                run_with_barriers(language.memory, batches, function)
            else:
                for programs in batches:
                    language.memory.enter_batch(programs)
                    function()
        except (EmulationError, NotEmulatedError, DivergentProgramsError):
            raise
        except NotImplementedError as error:
            raise NotEmulatedError(f"{self.name}: {error}") from error
        except Exception as error:
            raise emulation_error(error, self.name, self.fn.fn.__code__.co_filename) from error

    def _interpreted_value(self, name: str, value: Any) -> Any:
        """An argument of a launch as the interpreter takes it: tensors as pointers, numbers as Triton scalars."""
        kind = self.triton_meta.get("signature", {}).get(name, "constexpr")
        if kind == "constexpr" or name in self.config.kwargs or value is None:
            return value
        dtype = tl.str_to_ty(kind, None)
        if hasattr(value, "data_ptr"):
            return tl.core.tensor(shared_language().memory.pointer(Argument.from_tensor(name, value), dtype), dtype)
        return tl.core.tensor(TensorHandle(np.array([value]).astype(storage_dtype(dtype)), dtype), dtype)


def _is_block(name: Any, value: Any) -> bool:
    """Whether a constant is a block size: XBLOCK and R0_BLOCK of Inductor, BLOCK_SIZE and TILE_M of users."""
    return isinstance(name, str) and isinstance(value, int) and ("BLOCK" in name or "TILE" in name) and value > 0


def _storage_contents(values: Iterable[Any]) -> dict[int, tuple[Any, bytes]]:
    """Address → storage and its bytes, for the storages of all tensors."""
    storages = {v.untyped_storage().data_ptr(): v.untyped_storage() for v in values if hasattr(v, "data_ptr")}
    return {at: (storage, ctypes.string_at(at, storage.nbytes())) for at, storage in storages.items() if at}


def _restore(contents: Mapping[int, tuple[Any, bytes]]) -> None:
    for at, (_, before) in contents.items():
        ctypes.memmove(at, before, len(before))


def kernel_loader(wrapper: Wrapper) -> Callable[..., Any]:
    """Replaces AsyncCompile.triton: source of a kernel → InterpretedKernel."""

    def triton(_compiler: Any, name: str, source: str, *_device: Any, **_options: Any) -> InterpretedKernel:
        file = f"<{name} {hashlib.sha256(source.encode()).hexdigest()[:8]}>"
        # Triton's jit and error messages read the source again by the name of the file.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"__name__": f"conformance_emulated.{name}", "__file__": file}
        exec(compile(source, file, "exec"), namespace)  # noqa: S102 - the generated kernel
        kernel = namespace[name]
        kernel.wrapper = wrapper
        return kernel

    return triton


def interpreting_autotuner(_original: Any) -> Callable[..., Any]:
    """Replaces triton_heuristics.cached_autotune, which Inductor's heuristics call with their configurations."""

    def cached_autotune(
        _size_hints: Any,
        configs: Sequence[Any],
        triton_meta: Any,
        heuristic_type: Any,
        *_where: Any,
        inductor_meta: Any = None,
        **_: Any,
    ) -> Callable[[Any], InterpretedKernel]:
        is_fixed = heuristic_type is HeuristicType.FIXED

        def decorate(fn: Any) -> InterpretedKernel:
            for config in configs:
                if "XBLOCK" not in fn.arg_names:  # the kernel has it as the constant 1
                    config.kwargs.pop("XBLOCK", None)
            meta, uses_dot = inductor_meta or {}, "tl.dot(" in fn.src
            return InterpretedKernel(
                fn, Configurations(configs, meta, is_fixed=is_fixed, uses_dot=uses_dot), meta, triton_meta
            )

        return decorate

    return cached_autotune


class MultiKernel:
    """Replaces Inductor's MultiKernelCall, which times its kernels and keeps the fastest.

    Each call runs the next kernel, so that the calls of one case run all of them.
    """

    def __init__(self, _name: str, kernels: Sequence[InterpretedKernel], arg_index: Mapping[int, Sequence[slice]]):
        self._kernels, self._arguments = kernels, arg_index
        self._calls = itertools.count()

    def run(self, *args: Any, **kwargs: Any) -> None:
        chosen = next(self._calls) % len(self._kernels)
        self._kernels[chosen].run(*(each for part in self._arguments[chosen] for each in args[part]), **kwargs)
