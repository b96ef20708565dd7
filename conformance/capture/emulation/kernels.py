"""A generated kernel, run program by program on the cpu, as Inductor's heuristics would launch it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import linecache
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from torch._inductor.runtime import triton_heuristics
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.dtypes import stored
from conformance.capture.emulation.errors import EmulationError, NotEmulatedError, NotUniformError, located
from conformance.capture.emulation.grid_barrier import run_together
from conformance.capture.emulation.memory import Argument
from conformance.capture.emulation.triton_language import language

#: Elements of a block, times programs, that are computed at once.
MOST_ELEMENTS = 1 << 18
#: Of one launch: more are not interpreted, a second or so an operation.
MOST_OF_A_LAUNCH = 1 << 24


class InterpretedKernel:
    """In place of Inductor's CachingAutotuner (torch 2.11 to 2.15). `deadline`: asked at each launch."""

    deadline: Callable[[], float]

    def __init__(self, fn: Any, config: Any, meta: Mapping[str, Any], triton_meta: Mapping[str, Any]) -> None:
        self.fn, self.config, self.meta, self.triton_meta = fn, config, meta, triton_meta
        self.name = fn.fn.__name__

    def run(self, *args: Any, **kwargs: Any) -> None:
        """As the wrapper calls it: the arguments in order, without those that the configuration sets, and a stream."""
        names = [name for name in self.fn.arg_names if name not in self.config.kwargs and not self._is_fixed(name)]
        names += self.meta.get("extra_launcher_args", ())  # of a user's kernel: its grid
        given = dict(zip(names, args, strict=False)) | kwargs | self.config.kwargs
        for name, value in self.triton_meta.get("constants", {}).items():
            if isinstance(name, str):
                given.setdefault(name, value)
        grid = triton_heuristics.GridExpr.from_meta(dict(self.meta), self.config).eval_slow(dict(given))
        self._launch(given, tuple(int(size) for size in grid))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotEmulatedError(f"the wrapper asks a kernel for its {name}")

    def _launch(self, given: Mapping[str, Any], grid: tuple[int, int, int]) -> None:
        speaking = language()
        size = self._size()
        if (elements := size * math.prod(grid)) > MOST_OF_A_LAUNCH:
            raise NotEmulatedError(f"{self.name} computes {elements} elements, too many to be interpreted")
        speaking.memory.begin(grid, self.deadline(), fuses=bool(self.triton_meta.get("enable_fp_fusion", True)))
        programs = np.stack(np.unravel_index(np.arange(math.prod(grid)), grid), axis=1).astype(np.int32)
        at_once = max(1, MOST_ELEMENTS // size)
        with speaking.spoken(), np.errstate(all="ignore"):
            values = {name: self._value(name, given[name]) for name in self.fn.arg_names if name in given}
            before = _contents(given.values()) if len(programs) > 1 else {}
            for batches in self._ways(programs, at_once):
                try:
                    self._run(values, batches)
                    break
                except NotUniformError:
                    _restore(before)

    def _is_fixed(self, name: str) -> bool:
        """Whether a wrapper does not pass an argument: a constant that the user gave."""
        constants = {parameter.name for parameter in self.fn.params if parameter.is_constexpr}
        return name in constants and name in self.triton_meta.get("constants", {})

    def _size(self) -> int:
        """Elements of a block, by the constants that are named as blocks are."""
        constants = self.triton_meta.get("constants", {}) | self.config.kwargs
        return math.prod(value for name, value in constants.items() if _is_block(name, value))

    def _ways(self, programs: np.ndarray, at_once: int) -> Iterator[list[np.ndarray]]:
        """How the programs may be computed, in batches that go the same way, until there is one that works."""
        if self._cooperates:
            yield [programs[programs[:, 0] == first] for first in np.unique(programs[:, 0])]
        else:
            yield [programs[start : start + at_once] for start in range(0, len(programs), at_once)]
        yield list(programs[:, None])

    @property
    def _cooperates(self) -> bool:
        """Whether its programs wait for each other, those of the first axis of the grid."""
        return bool(self.triton_meta.get("launch_cooperative_grid")) or "RSPLIT" in self.config.kwargs

    def _run(self, values: Mapping[str, Any], batches: Sequence[np.ndarray]) -> None:
        speaking = language()
        function = functools.partial(speaking.function(self.fn.fn), **values)
        try:
            if self._cooperates:
                run_together(speaking.memory, batches, function)
            else:
                for programs in batches:
                    speaking.memory.enter(programs)
                    function()
        except (EmulationError, NotEmulatedError, NotUniformError):
            raise
        except NotImplementedError as error:
            raise NotEmulatedError(f"{self.name}: {error}") from error
        except Exception as error:
            raise located(error, self.name, self.fn.fn.__code__.co_filename) from error

    def _value(self, name: str, value: Any) -> Any:
        kind = self.triton_meta.get("signature", {}).get(name, "constexpr")
        if kind == "constexpr" or name in self.config.kwargs or value is None:
            return value
        dtype = tl.str_to_ty(kind, None)
        if hasattr(value, "data_ptr"):
            return tl.core.tensor(language().memory.pointer(Argument.of(name, value), dtype), dtype)
        return tl.core.tensor(TensorHandle(np.array([value]).astype(stored(dtype)), dtype), dtype)


def _is_block(name: Any, value: Any) -> bool:
    """XBLOCK and R0_BLOCK, as Inductor has them, BLOCK_SIZE and TILE_M, as users do."""
    return isinstance(name, str) and isinstance(value, int) and ("BLOCK" in name or "TILE" in name) and value > 0


def _contents(values: Iterable[Any]) -> dict[int, tuple[Any, bytes]]:
    """Of the storages of tensors: address → storage and bytes."""
    storages = {v.untyped_storage().data_ptr(): v.untyped_storage() for v in values if hasattr(v, "data_ptr")}
    return {at: (storage, ctypes.string_at(at, storage.nbytes())) for at, storage in storages.items() if at}


def _restore(contents: Mapping[int, tuple[Any, bytes]]) -> None:
    for at, (_, before) in contents.items():
        ctypes.memmove(at, before, len(before))


def largest(configs: Sequence[Any]) -> Any:
    """The configuration with the fewest programs: a program costs about the same for any size of block."""
    return max(configs, key=lambda config: math.prod(v for k, v in config.kwargs.items() if k.endswith("BLOCK")))


def loading(deadline: Callable[[], float]) -> Callable[..., Any]:
    """In place of AsyncCompile.triton: source of a kernel → InterpretedKernel."""

    def triton(_compiler: Any, name: str, source: str, *_device: Any, **_options: Any) -> InterpretedKernel:
        file = f"<{name} {hashlib.sha256(source.encode()).hexdigest()[:8]}>"
        # Triton's jit and error messages read the source back by the file's name.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"__name__": f"conformance_emulated.{name}", "__file__": file}
        exec(compile(source, file, "exec"), namespace)  # noqa: S102 - the generated kernel
        kernel = namespace[name]
        kernel.deadline = deadline
        return kernel

    return triton


def autotuning(_original: Any) -> Callable[..., Any]:
    """In place of triton_heuristics.cached_autotune, which its heuristics call with what they offer."""

    def cached_autotune(
        _size_hints: Any, configs: Sequence[Any], triton_meta: Any, *_where: Any, inductor_meta: Any = None, **_: Any
    ) -> Callable[[Any], InterpretedKernel]:
        def decorate(fn: Any) -> InterpretedKernel:
            chosen = largest(configs)
            if "XBLOCK" not in fn.arg_names:  # it is 1, and written into the kernel
                chosen.kwargs.pop("XBLOCK", None)
            return InterpretedKernel(fn, chosen, inductor_meta or {}, triton_meta)

        return decorate

    return cached_autotune


class MultiKernel:
    """In place of Inductor's MultiKernelCall, which times its kernels and keeps the fastest (torch 2.11 to 2.15): each
    call runs the next of them, so that the calls of one case run all.
    """

    def __init__(self, _name: str, kernels: Sequence[InterpretedKernel], arg_index: Mapping[int, Sequence[slice]]):
        self._kernels, self._arguments = kernels, arg_index
        self._calls = itertools.count()

    def run(self, *args: Any, **kwargs: Any) -> None:
        chosen = next(self._calls) % len(self._kernels)
        self._kernels[chosen].run(*(each for part in self._arguments[chosen] for each in args[part]), **kwargs)
