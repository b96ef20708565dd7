"""Loads, stores and atomics of an interpreted kernel, each held to the buffers that the kernel was given.

A pointer remembers the argument it was computed from, and may reach that argument's storage alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as native
from triton._C.libtriton import ir
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.arithmetic import Arithmetic
from conformance.capture.emulation.dtypes import number, rounded, stored
from conformance.capture.emulation.errors import KernelFault, NotEmulatedError, NotUniformError

_FROM = "argument"  # of a handle's attr: the Argument that a pointer was computed from


@dataclass(frozen=True)
class Argument:
    """A tensor that a kernel was given: its name there, where it begins, and its storage's bounds, in bytes."""

    name: str
    pointer: int
    start: int
    stop: int
    elements: int

    @classmethod
    def of(cls, name: str, tensor: Any) -> Argument:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        return cls(name, tensor.data_ptr(), start, start + storage.nbytes(), storage.nbytes() // tensor.element_size())


class Memory(Arithmetic):
    """The builder that a kernel is interpreted with. `begin` before each launch, `enter` before each batch of programs.

    `deadline`: of time.monotonic().
    """

    def __init__(self) -> None:
        super().__init__()
        self.arguments: list[Argument] = []
        self.deadline = float("inf")
        self.programs = np.zeros((1, 3), dtype=np.int32)
        self.wait: Callable[[], None] | None = None

    def begin(self, grid: tuple[int, int, int], deadline: float, *, fuses: bool = True) -> None:
        self.arguments = []
        self.fuses = fuses
        self.deadline = deadline
        self.set_grid_dim(*grid)

    def enter(self, programs: np.ndarray, wait: Callable[[], None] | None = None) -> None:
        """The programs to compute at once: int32[n, 3], their places in the grid. `wait`: at a barrier of the grid."""
        self.programs, self.wait = programs, wait

    def barrier(self) -> None:
        """Returns once all programs with the same place but for the first axis are here."""
        if self.wait is not None:
            self.wait()
        elif len(set(self.programs[:, 0].tolist())) < self.grid_dim[0]:
            raise NotEmulatedError("programs that wait for each other, and are not launched as cooperative")

    def create_get_program_id(self, axis: int) -> TensorHandle:
        ids = self.programs[:, axis]
        return TensorHandle(ids[:1] if (ids == ids[0]).all() else ids, tl.int32)

    def pointer(self, argument: Argument, dtype: Any) -> TensorHandle:
        self.arguments.append(argument)
        return TensorHandle(np.array([argument.pointer], dtype=np.uint64), dtype, {_FROM: argument})

    # ---- pointers remember their argument

    def create_addptr(self, ptr: TensorHandle, offset: TensorHandle) -> TensorHandle:
        size = np.uint64(_size(ptr))
        return TensorHandle(ptr.data + size * offset.data.astype(np.uint64), ptr.dtype, ptr.attr)

    def create_select(self, cond: TensorHandle, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        result = TensorHandle(np.where(cond.data, lhs.data, rhs.data), lhs.dtype.scalar)
        return _remembering(result, lhs) if lhs.attr.get(_FROM) == rhs.attr.get(_FROM) else result

    # ---- accesses

    def create_load(self, ptr: TensorHandle, *hints: Any) -> TensorHandle:
        return self.create_masked_load(ptr, None, None, *hints)

    def create_store(self, ptr: TensorHandle, value: TensorHandle, *hints: Any) -> None:
        self.create_masked_store(ptr, value, None, *hints)

    def create_masked_load(
        self, ptrs: TensorHandle, mask: Any, other: TensorHandle | None, *_hints: Any, **_named_hints: Any
    ) -> Any:
        dtype = ptrs.get_element_ty()
        kept = stored(dtype)
        rest = np.zeros(1, kept) if other is None else other.data.astype(kept, copy=False)
        addresses, lanes, rest = _spread([ptrs.data, _bits(mask), rest])
        self._hold(ptrs, addresses, lanes, "load")
        return TensorHandle(native.load(addresses, lanes, rest, kept), dtype)

    def create_masked_store(self, ptrs: TensorHandle, value: TensorHandle, mask: Any, *_hints: Any) -> None:
        kept = stored(ptrs.get_element_ty())
        addresses, lanes, values = _spread([ptrs.data, _bits(mask), value.data.astype(kept, copy=False)])
        self._hold(ptrs, addresses, lanes, "store")
        native.store(addresses, values, lanes)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: TensorHandle, mask: Any, sem: Any, _scope: Any) -> TensorHandle:
        dtype = val.dtype.scalar
        every = np.ones((len(self.programs), *(1,) * (ptr.data.ndim - 1)), bool)  # each program does it
        addresses, lanes, values, _ = _spread([ptr.data, _bits(mask), val.data, every])
        self._hold(ptr, addresses, lanes, "atomic operation")
        if dtype.is_bf16() or dtype.is_fp16():
            return TensorHandle(_add_halves(op, addresses, values, lanes, dtype), dtype)
        operation, order = self.ir_rmw_op_to_interpreter_rmw_op[op], self.ir_sem_to_interpreter_sem[sem]
        return TensorHandle(native.atomic_rmw(operation, addresses, values, lanes, order), dtype)

    def create_atomic_cas(self, ptr: Any, cmp: TensorHandle, val: TensorHandle, sem: Any, _scope: Any) -> TensorHandle:
        every = np.ones((len(self.programs), *(1,) * (ptr.data.ndim - 1)), bool)
        addresses, wanted, values, lanes = _spread([ptr.data, cmp.data, val.data, every])
        self._hold(ptr, addresses, lanes, "atomic operation")
        order = self.ir_sem_to_interpreter_sem[sem]
        return TensorHandle(native.atomic_cas(addresses, wanted, values, order), cmp.dtype.scalar)

    def _hold(self, ptrs: TensorHandle, addresses: np.ndarray, lanes: np.ndarray, what: str) -> None:
        """Raises KernelFault where a lane that takes part is outside of its argument, or past the deadline."""
        if time.monotonic() > self.deadline:
            raise KernelFault("it has not come to an end within the time limit")
        size, source = _size(ptrs), ptrs.attr.get(_FROM)
        known = self.arguments if source is None else [source]
        used = addresses if lanes.all() else addresses[lanes]
        if not used.size:
            return
        low, high = int(used.min()), int(used.max()) + size
        if any(each.start <= low and high <= each.stop for each in known):
            return
        inside = np.zeros(addresses.shape, bool)
        for each in known:
            inside |= (addresses >= each.start) & (addresses + np.uint64(size) <= each.stop)
        bad = lanes & ~inside
        if not bad.any():
            return
        place = tuple(np.argwhere(bad)[0])
        program = self.programs[place[0] if addresses.shape[0] == len(self.programs) else 0]
        where = "an address in none of the arguments"
        if source is not None:
            element = (int(addresses[place]) - source.pointer) // size
            where = f"element {element} of {source.name}, which has {source.elements}"
        counted = f"{int(bad.sum())} of {int(lanes.sum())} elements"
        raise KernelFault(f"{what} out of bounds: {where} ({counted})", tuple(int(each) for each in program))

    # ---- block pointers and descriptors, which the interpreter computes for one program

    def create_tensor_pointer_load(self, *args: Any) -> TensorHandle:
        return self._alone(super().create_tensor_pointer_load, *args)

    def create_tensor_pointer_store(self, *args: Any) -> Any:
        return self._alone(super().create_tensor_pointer_store, *args)

    def create_make_tensor_descriptor(self, *args: Any) -> Any:
        return self._alone(super().create_make_tensor_descriptor, *args)

    def create_descriptor_load(self, *args: Any) -> TensorHandle:
        loaded = self._alone(super().create_descriptor_load, *args)
        return TensorHandle(loaded.data[None], loaded.dtype)

    def create_descriptor_store(self, desc: Any, value: TensorHandle, *args: Any) -> Any:
        return self._alone(super().create_descriptor_store, desc, TensorHandle(value.data[0], value.dtype), *args)

    def _alone(self, operation: Any, *args: Any) -> Any:
        if len(self.programs) > 1:
            raise NotUniformError("a block pointer or descriptor")
        return operation(*args)


def _size(ptrs: TensorHandle) -> int:
    return max(1, ptrs.get_element_ty().primitive_bitwidth // 8)


def _bits(mask: Any) -> np.ndarray:
    if mask is None:
        return np.ones(1, bool)
    return mask.data if isinstance(mask, TensorHandle) else mask


def _spread(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All of one shape, contiguous, as Triton's own loads and stores want them."""
    return [np.ascontiguousarray(array) for array in np.broadcast_arrays(*arrays)]


def _add_halves(op: Any, addresses: np.ndarray, values: np.ndarray, lanes: np.ndarray, dtype: Any) -> np.ndarray:
    """One lane after the other, each sum rounded, as the device does; the interpreter's own adds no 16-bit floats."""
    if op != ir.ATOMIC_OP.FADD:
        raise KernelFault(f"atomic {op} of {dtype} is not interpreted")
    old = np.zeros(addresses.shape, stored(dtype))
    one = np.ones(1, bool)
    for place in zip(*np.nonzero(lanes), strict=True):
        address = addresses[place].reshape(1)
        before = native.load(address, one, np.zeros(1, stored(dtype)), stored(dtype))
        old[place] = before[0]
        native.store(address, rounded(number(before, dtype) + number(values[place].reshape(1), dtype), dtype), one)
    return old


def _remembering(result: TensorHandle, source: TensorHandle) -> TensorHandle:
    if _FROM in source.attr:
        result.attr[_FROM] = source.attr[_FROM]
    return result


def _carried(name: str) -> Any:
    original = getattr(Arithmetic, name)
    first = 1 if name == "create_splat" else 0

    def carry(self: Memory, *args: Any) -> TensorHandle:
        return _remembering(original(self, *args), args[first])

    return carry


for _name in ("splat", "broadcast", "expand_dims", "reshape", "trans", "bitcast"):
    setattr(Memory, f"create_{_name}", _carried(f"create_{_name}"))
