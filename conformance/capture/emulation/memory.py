"""Runs the loads, stores and atomic operations of an interpreted kernel, and checks their bounds.

A pointer keeps the argument that it was computed from. It may reach the storage of that argument only.
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
from conformance.capture.emulation.dtypes import decode, encode, storage_dtype
from conformance.capture.emulation.errors import DivergentProgramsError, KernelFaultError, NotEmulatedError

_ARGUMENT = "argument"  # key of a handle's attr: the Argument that a pointer was computed from


@dataclass(frozen=True)
class Argument:
    """A tensor among the arguments of a kernel.

    `name`: of the kernel's parameter. `pointer`: address of the first element. `start`, `stop`: addresses of the
    storage. `elements`: how many elements the storage has.
    """

    name: str
    pointer: int
    start: int
    stop: int
    elements: int

    @classmethod
    def from_tensor(cls, name: str, tensor: Any) -> Argument:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        return cls(name, tensor.data_ptr(), start, start + storage.nbytes(), storage.nbytes() // tensor.element_size())


class Memory(Arithmetic):
    """The builder that interprets a kernel.

    Call `begin_launch` before each launch and `enter_batch` before each batch of programs. `deadline`: a value of
    time.monotonic().
    """

    def __init__(self) -> None:
        super().__init__()
        self.arguments: list[Argument] = []
        self.deadline = float("inf")
        self.programs: np.ndarray = np.zeros((1, 3), dtype=np.int32)
        self.wait: Callable[[], None] | None = None

    def begin_launch(self, grid: tuple[int, int, int], deadline: float, *, fuses: bool = True) -> None:
        """`grid`: programs along each axis. `fuses`: whether the launch rounds added products once."""
        self.arguments = []
        self.fuses = fuses
        self.deadline = deadline
        self.set_grid_dim(*grid)

    def enter_batch(self, programs: np.ndarray, wait: Callable[[], None] | None = None) -> None:
        """Selects the programs to compute at once.

        `programs`: int32 of shape (n, 3), their places in the grid. `wait`: called at a barrier of the grid.
        """
        self.programs, self.wait = programs, wait

    def barrier(self) -> None:
        """Returns when all programs along the first axis of the grid have reached the barrier."""
        if self.wait is not None:
            self.wait()
        elif len(set(self.programs[:, 0].tolist())) < self.grid_dim[0]:
            raise NotEmulatedError(
                "programs wait for each other at a barrier of the grid, but the launch is not cooperative"
            )

    def create_get_program_id(self, axis: int) -> TensorHandle:
        ids = self.programs[:, axis]
        return TensorHandle(ids[:1] if (ids == ids[0]).all() else ids, tl.int32)

    def pointer(self, argument: Argument, dtype: Any) -> TensorHandle:
        """A pointer to an argument. `dtype`: its Triton type, such as *fp32."""
        self.arguments.append(argument)
        return TensorHandle(np.array([argument.pointer], dtype=np.uint64), dtype, {_ARGUMENT: argument})

    # ---- pointers keep their argument

    def create_addptr(self, ptr: TensorHandle, offset: TensorHandle) -> TensorHandle:
        size = np.uint64(_element_size(ptr))
        return TensorHandle(ptr.data + size * offset.data.astype(np.uint64), ptr.dtype, ptr.attr)

    def create_select(self, cond: TensorHandle, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        result = TensorHandle(np.where(cond.data, lhs.data, rhs.data), lhs.dtype.scalar)
        return _with_argument_of(result, lhs) if lhs.attr.get(_ARGUMENT) == rhs.attr.get(_ARGUMENT) else result

    # ---- accesses

    def create_load(self, ptr: TensorHandle, *hints: Any) -> TensorHandle:
        return self.create_masked_load(ptr, None, None, *hints)

    def create_store(self, ptr: TensorHandle, value: TensorHandle, *hints: Any) -> None:
        self.create_masked_store(ptr, value, None, *hints)

    def create_masked_load(
        self, ptrs: TensorHandle, mask: Any, other: TensorHandle | None, *_hints: Any, **_named_hints: Any
    ) -> Any:
        dtype = ptrs.get_element_ty()
        kind = storage_dtype(dtype)
        default = np.zeros(1, kind) if other is None else other.data.astype(kind, copy=False)
        addresses, lanes, default = _broadcast([ptrs.data, _mask_array(mask), default])
        self._check_bounds(ptrs, addresses, lanes, "load")
        return TensorHandle(native.load(addresses, lanes, default, kind), dtype)

    def create_masked_store(self, ptrs: TensorHandle, value: TensorHandle, mask: Any, *_hints: Any) -> None:
        kind = storage_dtype(ptrs.get_element_ty())
        addresses, lanes, values = _broadcast([ptrs.data, _mask_array(mask), value.data.astype(kind, copy=False)])
        self._check_bounds(ptrs, addresses, lanes, "store")
        native.store(addresses, values, lanes)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: TensorHandle, mask: Any, sem: Any, _scope: Any) -> TensorHandle:
        dtype = val.dtype.scalar
        every = np.ones((len(self.programs), *(1,) * (ptr.data.ndim - 1)), bool)  # one operation for each program
        addresses, lanes, values, _ = _broadcast([ptr.data, _mask_array(mask), val.data, every])
        self._check_bounds(ptr, addresses, lanes, "atomic operation")
        if dtype.is_bf16() or dtype.is_fp16():
            return TensorHandle(_add_halves(op, addresses, values, lanes, dtype), dtype)
        operation, order = self.ir_rmw_op_to_interpreter_rmw_op[op], self.ir_sem_to_interpreter_sem[sem]
        return TensorHandle(native.atomic_rmw(operation, addresses, values, lanes, order), dtype)

    def create_atomic_cas(self, ptr: Any, cmp: TensorHandle, val: TensorHandle, sem: Any, _scope: Any) -> TensorHandle:
        every = np.ones((len(self.programs), *(1,) * (ptr.data.ndim - 1)), bool)
        addresses, compared, values, lanes = _broadcast([ptr.data, cmp.data, val.data, every])
        self._check_bounds(ptr, addresses, lanes, "atomic operation")
        order = self.ir_sem_to_interpreter_sem[sem]
        return TensorHandle(native.atomic_cas(addresses, compared, values, order), cmp.dtype.scalar)

    def _check_bounds(self, ptrs: TensorHandle, addresses: np.ndarray, lanes: np.ndarray, access: str) -> None:
        """Raises KernelFaultError if an active lane is outside of its argument, or after the deadline.

        `addresses`: uint64; `lanes`: bool, true where a lane is active; both of one shape, programs first.
        `access`: "load", "store" or "atomic operation", for the message.
        """
        if time.monotonic() > self.deadline:
            raise KernelFaultError("the kernel did not finish within the time limit")
        size, source = _element_size(ptrs), ptrs.attr.get(_ARGUMENT)
        allowed = self.arguments if source is None else [source]
        used = addresses if lanes.all() else addresses[lanes]
        if not used.size:
            return
        low, high = int(used.min()), int(used.max()) + size
        if any(each.start <= low and high <= each.stop for each in allowed):
            return
        inside = np.zeros(addresses.shape, bool)
        for each in allowed:
            inside |= (addresses >= each.start) & (addresses + np.uint64(size) <= each.stop)
        bad = lanes & ~inside
        if not bad.any():
            return
        first = tuple(np.argwhere(bad)[0])
        program = self.programs[first[0] if addresses.shape[0] == len(self.programs) else 0]
        where = "an address outside of all arguments"
        if source is not None:
            element = (int(addresses[first]) - source.pointer) // size
            where = f"element {element} of {source.name}, which has {source.elements} elements"
        count = f"{int(bad.sum())} of {int(lanes.sum())} accesses"
        raise KernelFaultError(f"{access} out of bounds: {where} ({count})", tuple(int(each) for each in program))

    # ---- block pointers and descriptors: the interpreter handles one program at a time

    def create_tensor_pointer_load(self, *args: Any) -> TensorHandle:
        loaded = self._run_single_program(super().create_tensor_pointer_load, *args)
        return TensorHandle(loaded.data[None], loaded.dtype)

    def create_tensor_pointer_store(self, ptr: Any, value: TensorHandle, *args: Any) -> Any:
        return self._run_single_program(
            super().create_tensor_pointer_store, ptr, TensorHandle(value.data[0], value.dtype), *args
        )

    def create_make_tensor_descriptor(self, *args: Any) -> Any:
        return self._run_single_program(super().create_make_tensor_descriptor, *args)

    def create_descriptor_load(self, *args: Any) -> TensorHandle:
        loaded = self._run_single_program(super().create_descriptor_load, *args)
        return TensorHandle(loaded.data[None], loaded.dtype)

    def create_descriptor_store(self, desc: Any, value: TensorHandle, *args: Any) -> Any:
        return self._run_single_program(
            super().create_descriptor_store, desc, TensorHandle(value.data[0], value.dtype), *args
        )

    def _run_single_program(self, operation: Any, *args: Any) -> Any:
        if len(self.programs) > 1:
            raise DivergentProgramsError("a block pointer or descriptor")
        return operation(*args)


def _element_size(ptrs: TensorHandle) -> int:
    """Bytes of an element."""
    return max(1, ptrs.get_element_ty().primitive_bitwidth // 8)


def _mask_array(mask: Any) -> np.ndarray:
    if mask is None:
        return np.ones(1, bool)
    return mask.data if isinstance(mask, TensorHandle) else mask


def _broadcast(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Contiguous arrays of one shape, as Triton's own loads and stores require."""
    return [np.ascontiguousarray(array) for array in np.broadcast_arrays(*arrays)]


def _add_halves(op: Any, addresses: np.ndarray, values: np.ndarray, lanes: np.ndarray, dtype: Any) -> np.ndarray:
    """Atomic adds of bf16 and fp16, one lane after the other; returns the values before.

    Rounds each sum, as the device does. The interpreter's own atomic add does not support 16-bit floats.
    """
    if op != ir.ATOMIC_OP.FADD:
        raise KernelFaultError(f"the emulation does not support atomic {op} of {dtype}")
    old = np.zeros(addresses.shape, storage_dtype(dtype))
    one: np.ndarray = np.ones(1, bool)
    for lane in zip(*np.nonzero(lanes), strict=True):
        address = addresses[lane].reshape(1)
        before = native.load(address, one, np.zeros(1, storage_dtype(dtype)), storage_dtype(dtype))
        old[lane] = before[0]
        native.store(address, encode(decode(before, dtype) + decode(values[lane].reshape(1), dtype), dtype), one)
    return old


def _with_argument_of(result: TensorHandle, source: TensorHandle) -> TensorHandle:
    if _ARGUMENT in source.attr:
        result.attr[_ARGUMENT] = source.attr[_ARGUMENT]
    return result


def _keeping_argument(name: str) -> Any:
    """The builder's function `name`, with a result that keeps the argument of its pointer."""
    original = getattr(Arithmetic, name)
    first = 1 if name == "create_splat" else 0

    def create(self: Memory, *args: Any) -> TensorHandle:
        return _with_argument_of(original(self, *args), args[first])

    return create


for _name in ("splat", "broadcast", "expand_dims", "reshape", "trans", "bitcast"):
    setattr(Memory, f"create_{_name}", _keeping_argument(f"create_{_name}"))
