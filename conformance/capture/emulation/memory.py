"""Loads, stores and atomics of an interpreted kernel, each held to the buffers that the kernel was given.

A pointer remembers the argument it was computed from, and may reach that argument's storage alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from triton._C.libtriton import interpreter as native
from triton._C.libtriton import ir
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.arithmetic import Arithmetic
from conformance.capture.emulation.errors import KernelFault
from conformance.capture.emulation.values import number, rounded, stored

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
    """The builder that a kernel is interpreted with. `begin` before each launch; `deadline`: of time.monotonic()."""

    def __init__(self) -> None:
        super().__init__()
        self.arguments: list[Argument] = []
        self.deadline = float("inf")

    def begin(self, grid: tuple[int, int, int], deadline: float) -> None:
        self.arguments = []
        self.deadline = deadline
        self.set_grid_dim(*grid)

    def pointer(self, argument: Argument, dtype: Any) -> TensorHandle:
        self.arguments.append(argument)
        return TensorHandle(np.array([argument.pointer], dtype=np.uint64), dtype, {_FROM: argument})

    # ---- pointers remember their argument

    def create_addptr(self, ptr: TensorHandle, offset: TensorHandle) -> TensorHandle:
        size = max(1, ptr.get_element_ty().primitive_bitwidth // 8)
        return TensorHandle(ptr.data + size * offset.data.astype(np.uint64), ptr.dtype, ptr.attr)

    def create_select(self, cond: TensorHandle, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        result = TensorHandle(np.where(cond.data, lhs.data, rhs.data), lhs.dtype.scalar)
        return _remembering(result, lhs) if lhs.attr.get(_FROM) == rhs.attr.get(_FROM) else result

    # ---- accesses

    def create_load(self, ptr: TensorHandle, *hints: Any) -> TensorHandle:
        return self.create_masked_load(ptr, None, None, *hints)

    def create_store(self, ptr: TensorHandle, value: TensorHandle, *hints: Any) -> None:
        self.create_masked_store(ptr, value, None, *hints)

    def create_masked_load(self, ptrs: TensorHandle, mask: Any, other: TensorHandle | None, *_hints: Any) -> Any:
        dtype = ptrs.get_element_ty()
        lanes = self._lanes(ptrs, mask, "load")
        kept = stored(dtype)
        rest = np.zeros(ptrs.data.shape, kept) if other is None else np.ascontiguousarray(other.data, dtype=kept)
        values = native.load(np.ascontiguousarray(ptrs.data), lanes, rest, kept)
        return TensorHandle(values.astype(bool) if kept == np.bool_ else values, dtype)

    def create_masked_store(self, ptrs: TensorHandle, value: TensorHandle, mask: Any, *_hints: Any) -> None:
        lanes = self._lanes(ptrs, mask, "store")
        kept = stored(ptrs.get_element_ty())
        values = np.broadcast_to(value.data, ptrs.data.shape)
        native.store(np.ascontiguousarray(ptrs.data), np.ascontiguousarray(values, dtype=kept), lanes)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: TensorHandle, mask: Any, sem: Any, _scope: Any) -> TensorHandle:
        dtype = val.dtype.scalar
        lanes = self._lanes(ptr, mask, "atomic operation")
        if dtype.is_bf16() or dtype.is_fp16():
            return self._add_halves(op, ptr, val, lanes)
        operation, order = self.ir_rmw_op_to_interpreter_rmw_op[op], self.ir_sem_to_interpreter_sem[sem]
        values = np.ascontiguousarray(np.broadcast_to(val.data, ptr.data.shape))
        return TensorHandle(native.atomic_rmw(operation, np.ascontiguousarray(ptr.data), values, lanes, order), dtype)

    def create_atomic_cas(self, ptr: Any, cmp: TensorHandle, val: TensorHandle, sem: Any, scope: Any) -> TensorHandle:
        self._lanes(ptr, None, "atomic operation")
        return super().create_atomic_cas(ptr, cmp, val, sem, scope)

    def _add_halves(self, op: Any, ptr: TensorHandle, val: TensorHandle, lanes: np.ndarray) -> TensorHandle:
        """One lane after the other, each sum rounded, as the device does; the interpreter's own adds only floats."""
        if op != ir.ATOMIC_OP.FADD:
            raise KernelFault(f"atomic {op} of {val.dtype.scalar} is not interpreted")
        dtype = val.dtype.scalar
        old = np.zeros(ptr.data.shape, stored(dtype))
        values = np.broadcast_to(val.data, ptr.data.shape)
        for place in zip(*np.nonzero(lanes), strict=True):
            address, one = ptr.data[place].reshape(1), np.ones(1, bool)
            old[place] = native.load(address, one, np.zeros(1, stored(dtype)), stored(dtype))[0]
            total = number(old[place].reshape(1), dtype) + number(values[place].reshape(1), dtype)
            native.store(address, rounded(total, dtype), one)
        return TensorHandle(old, dtype)

    def _lanes(self, ptrs: TensorHandle, mask: Any, what: str) -> np.ndarray:
        """Which lanes take part. Raises KernelFault where one of them is outside of its argument's storage."""
        if time.monotonic() > self.deadline:
            raise KernelFault("it has not come to an end within the time limit")
        if mask is None:
            lanes, addresses = np.ones(ptrs.data.shape, bool), ptrs.data
        else:
            bits = mask.data if isinstance(mask, TensorHandle) else mask
            lanes = np.ascontiguousarray(np.broadcast_to(bits, ptrs.data.shape), dtype=bool)
            addresses = ptrs.data[lanes]
        if addresses.size:
            self._hold(addresses, max(1, ptrs.get_element_ty().primitive_bitwidth // 8), ptrs.attr.get(_FROM), what)
        return lanes

    def _hold(self, addresses: np.ndarray, size: int, source: Argument | None, what: str) -> None:
        if source is None:
            inside = np.zeros(addresses.shape, bool)
            for known in self.arguments:
                inside |= (addresses >= known.start) & (addresses + np.uint64(size) <= known.stop)
            if not inside.all():
                raise KernelFault(f"{what} out of bounds: an address in none of the arguments")
            return
        low, high = int(addresses.min()), int(addresses.max())
        if source.start <= low and high + size <= source.stop:
            return
        bad = (addresses < source.start) | (addresses + np.uint64(size) > source.stop)
        first = (int(addresses[bad][0]) - source.pointer) // size
        raise KernelFault(
            f"{what} out of bounds: element {first} of {source.name}, which has {source.elements} "
            f"({int(bad.sum())} of {addresses.size} lanes)"
        )


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


for _name in ("create_splat", "create_broadcast", "create_expand_dims", "create_reshape", "create_trans"):
    setattr(Memory, _name, _carried(_name))
Memory.create_bitcast = _carried("create_bitcast")
