"""Computes the operations of Triton's semantics in numpy.

Extends Triton's own interpreter and corrects what it computes wrongly (Triton 3.6 to 3.9): rounding to bf16,
comparisons with NaN, precision modes of dot, and conversion of floats to integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder, InterpreterOptions, TensorHandle

from conformance.capture.emulation import inline_asm
from conformance.capture.emulation.dtypes import decode, encode, is_stored_as_bits, round_to_tf32, storage_dtype
from conformance.capture.emulation.errors import KernelFaultError, NotEmulatedError


def _erf(values: np.ndarray) -> np.ndarray:
    import torch

    return torch.erf(torch.from_numpy(np.array(values, dtype=np.float64))).numpy().astype(values.dtype)


_PRODUCT = "product"  # key of a handle's attr: the two factors whose product the handle is

#: Unordered comparisons (U) are true where a side is NaN, ordered ones (O) are false.
COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    **{f"icmp{sign}{name}": op for sign in "SU" for name, op in
       (("LE", np.less_equal), ("LT", np.less), ("GE", np.greater_equal), ("GT", np.greater))},
    "icmpEQ": np.equal, "icmpNE": np.not_equal,
    "fcmpOLT": np.less, "fcmpOGT": np.greater, "fcmpOLE": np.less_equal, "fcmpOGE": np.greater_equal,
    "fcmpOEQ": np.equal, "fcmpONE": lambda a, b: np.less(a, b) | np.greater(a, b),
    "fcmpULT": lambda a, b: ~np.greater_equal(a, b), "fcmpUGT": lambda a, b: ~np.less_equal(a, b),
    "fcmpULE": lambda a, b: ~np.greater(a, b), "fcmpUGE": lambda a, b: ~np.less(a, b),
    "fcmpUEQ": lambda a, b: ~(np.less(a, b) | np.greater(a, b)), "fcmpUNE": np.not_equal,
}  # fmt: skip

#: Functions of one array of floats.
UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "cos": np.cos, "sin": np.sin, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "floor": np.floor,
    "ceil": np.ceil, "sqrt": np.sqrt, "precise_sqrt": np.sqrt, "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "fabs": np.abs, "fneg": np.negative, "erf": _erf,
}  # fmt: skip


class Arithmetic(InterpreterBuilder):
    """The builder of the interpreter, without memory accesses.

    Handles hold numpy arrays. See dtypes.py for dtypes that numpy lacks. The interpreter computes all programs of a
    batch at once: the shape of each array is (programs, *shape of the value). The first axis has size 1 where all
    programs have the same value.
    """

    def __init__(self, *, asserts: bool = True) -> None:
        super().__init__()
        self.options = InterpreterOptions(debug=asserts, sanitize_overflow=False)
        self.fuses = True  # an added product is rounded once, as ptxas and other compilers do

    # ---- shapes

    def create_make_range(self, _ret_ty: Any, start: int, stop: int) -> TensorHandle:
        return TensorHandle(np.arange(start, stop, dtype=np.int32)[None], tl.int32)

    def create_splat(self, ret_ty: Any, arg: TensorHandle) -> TensorHandle:
        data = arg.data.reshape(-1, *(1 for _ in ret_ty.shape))
        return TensorHandle(np.broadcast_to(data, (len(data), *ret_ty.shape)), arg.dtype.scalar)

    def create_unsplat(self, arg: TensorHandle) -> TensorHandle:
        return TensorHandle(arg.data.reshape(len(arg.data), -1)[:, 0], arg.dtype.scalar)

    def create_expand_dims(self, arg: TensorHandle, axis: int) -> TensorHandle:
        return TensorHandle(np.expand_dims(arg.data, axis + 1), arg.dtype.scalar)

    def create_broadcast(self, arg: TensorHandle, shape: Sequence[int]) -> TensorHandle:
        return TensorHandle(np.broadcast_to(arg.data, (len(arg.data), *shape)), arg.dtype.scalar)

    def create_reshape(self, arg: TensorHandle, shape: Sequence[int], _allow_reorder: bool) -> TensorHandle:
        return TensorHandle(arg.data.reshape(len(arg.data), *shape), arg.dtype.scalar)

    def create_trans(self, arg: TensorHandle, perm: Sequence[int]) -> TensorHandle:
        return TensorHandle(np.transpose(arg.data, (0, *(axis + 1 for axis in perm))), arg.dtype.scalar)

    def create_cat(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return TensorHandle(np.concatenate(broadcast_programs(lhs.data, rhs.data), axis=1), lhs.dtype.scalar)

    def create_join(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return TensorHandle(np.stack(broadcast_programs(lhs.data, rhs.data), axis=-1), lhs.dtype.scalar)

    def create_gather(self, src: TensorHandle, indices: TensorHandle, axis: int) -> TensorHandle:
        count = max(len(src.data), len(indices.data))
        values, positions = (np.broadcast_to(a.data, (count, *a.data.shape[1:])) for a in (src, indices))
        return TensorHandle(np.take_along_axis(values, positions, axis=axis + 1), src.dtype.scalar)

    def create_histogram(self, data: TensorHandle, bins: int, mask: TensorHandle | None) -> TensorHandle:
        valid = (data.data >= 0) & (data.data < bins) & (True if mask is None else mask.data)
        values = np.broadcast_to(data.data, valid.shape)
        counts = [np.bincount(row[mask], minlength=bins) for row, mask in zip(values, valid, strict=True)]
        return TensorHandle(np.stack(counts).astype(np.int32), tl.int32)

    def get_bf16(self, value: float) -> TensorHandle:
        return TensorHandle(encode(np.array([value], dtype=np.float32), tl.bfloat16), tl.bfloat16)

    # ---- casts

    def cast_impl(self, src: TensorHandle, dst_type: Any) -> TensorHandle:
        target = dst_type.scalar
        return TensorHandle(encode(decode(src.data, src.dtype.scalar), target), target)

    def create_fp_to_fp(self, src: TensorHandle, dst_type: Any, rounding_mode: Any) -> TensorHandle:
        if rounding_mode == ir.ROUNDING_MODE.RTZ:
            return super().create_fp_to_fp(src, dst_type, rounding_mode)
        return self.cast_impl(src, dst_type)

    # ---- operators

    def binary_op(self, lhs: TensorHandle, rhs: TensorHandle, op: Callable[..., Any]) -> TensorHandle:
        dtype = lhs.dtype.scalar
        if is_stored_as_bits(dtype) and op not in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
            return TensorHandle(encode(op(decode(lhs.data, dtype), decode(rhs.data, dtype)), dtype), dtype)
        if lhs.data.dtype == rhs.data.dtype == np.bool_ and op in (np.add, np.subtract, np.multiply):
            return TensorHandle((op(lhs.data.astype(np.int8), rhs.data.astype(np.int8)) & 1).astype(bool), dtype)
        result = op(lhs.data, rhs.data)
        kind = storage_dtype(dtype)
        return TensorHandle(result if result.dtype == kind else result.astype(kind), dtype)

    def create_fmul(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        result = self.binary_op(lhs, rhs, np.multiply)
        if self.fuses and result.dtype.is_fp32():
            result.attr[_PRODUCT] = (lhs.data, rhs.data)
        return result

    def create_fadd(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return self._fused(lhs, rhs, np.add)

    def create_fsub(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return self._fused(lhs, rhs, np.subtract)

    def _fused(self, lhs: TensorHandle, rhs: TensorHandle, op: Callable[..., Any]) -> TensorHandle:
        for product, sides in ((lhs.attr.get(_PRODUCT), (True, False)), (rhs.attr.get(_PRODUCT), (False, True))):
            if product is None:
                continue
            exact = np.multiply(*product, dtype=np.float64)
            values = [exact if is_product else side.data for is_product, side in zip(sides, (lhs, rhs), strict=True)]
            return TensorHandle(op(*values, dtype=np.float64).astype(np.float32), lhs.dtype.scalar)
        return self.binary_op(lhs, rhs, op)

    def unary_op(self, arg: TensorHandle, op: Callable[..., Any]) -> TensorHandle:
        dtype = arg.dtype.scalar
        return TensorHandle(encode(op(decode(arg.data, dtype)), dtype), dtype)

    def create_minnumf(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_clampf(self, arg: TensorHandle, lo: TensorHandle, hi: TensorHandle, nans: Any) -> TensorHandle:
        least, most = (np.minimum, np.maximum) if nans == ir.PROPAGATE_NAN.ALL else (np.fmin, np.fmax)
        return self.binary_op(self.binary_op(arg, lo, most), hi, least)

    def create_ashr(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        signed = np.dtype(f"i{lhs.data.dtype.itemsize}")
        shifted = np.right_shift(lhs.data.astype(signed), rhs.data.astype(signed))
        return TensorHandle(shifted.astype(lhs.data.dtype), lhs.dtype.scalar)

    def create_umulhi(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        kind = lhs.data.dtype
        left, right = np.broadcast_arrays(lhs.data, rhs.data)
        if kind.itemsize == 8:
            high = _high_of_128(left.astype(np.uint64), right.astype(np.uint64))
        else:
            bits = kind.itemsize * 8
            mask = np.uint64((1 << bits) - 1)
            high = ((left.astype(np.uint64) & mask) * (right.astype(np.uint64) & mask)) >> np.uint64(bits)
        return TensorHandle(high.astype(kind), lhs.dtype.scalar)

    def create_fma(self, x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
        dtype = z.dtype.scalar
        factor, other, term = (decode(each.data, dtype) for each in (x, y, z))
        wide = np.longdouble if storage_dtype(dtype) == np.float64 else np.float64
        result = factor.astype(wide) * other.astype(wide) + term.astype(wide)
        return TensorHandle(encode(result.astype(term.dtype), dtype), dtype)

    def create_inline_asm(
        self, text: str, _constraints: str, args: Sequence[TensorHandle], types: Sequence[Any], _pure: bool, pack: int
    ) -> inline_asm.Results:
        if pack != 1 or len(types) != 1 or not all(each.dtype.scalar.is_fp32() for each in args):
            raise NotEmulatedError(f"inline assembly on operands other than single float32 values: {text.strip()}")
        return inline_asm.evaluate(text, args, tl.float32)

    def create_dot(self, a: TensorHandle, b: TensorHandle, d: TensorHandle, precision: Any, _max: Any) -> TensorHandle:
        left, right = (decode(side.data, side.dtype.scalar) for side in (a, b))
        kind = d.data.dtype
        if left.dtype == np.float32 and a.dtype.scalar.is_fp32():
            product = _float32_product(left, right, str(precision).rpartition(".")[2])
        else:
            wide = np.int64 if kind.kind in "iu" else np.float64
            product = np.matmul(left.astype(wide), right.astype(wide))
        return TensorHandle((product + d.data).astype(kind), d.dtype.scalar)

    def create_idiv(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """Divides towards zero, as NVIDIA's GPUs do.

        The smallest integer divided by -1 is itself. A quotient by 0 has all bits set.
        """
        a, b = np.broadcast_arrays(lhs.data, rhs.data)
        if a.dtype.kind == "b":
            return TensorHandle(a & b, lhs.dtype.scalar)
        floor = np.floor_divide(a, np.where(b == 0, 1, b).astype(b.dtype))
        if a.dtype.kind == "i":
            inexact = (floor * b != a) & ((a < 0) != (b < 0))
            floor = floor + inexact.astype(a.dtype)
        return TensorHandle(np.where(b == 0, ~np.zeros((), a.dtype), floor).astype(a.dtype), lhs.dtype.scalar)

    def get_all_ones_value(self, dtype: Any) -> TensorHandle:
        kind = storage_dtype(dtype.scalar)
        return TensorHandle(np.full(1, True) if kind == np.bool_ else ~np.zeros(1, kind), dtype.scalar)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create_"):
            raise NotEmulatedError(f"Triton's interpreter does not support {name.removeprefix('create_')}")
        raise AttributeError(name)

    # ---- assertions

    def create_assert(self, condition: TensorHandle, message: str) -> None:
        if not np.all(condition.data):
            raise KernelFaultError(f"device assertion failed: {message}")

    def create_assume(self, condition: TensorHandle) -> None:
        if not np.all(condition.data):
            raise KernelFaultError("tl.assume: the condition is false")


def broadcast_programs(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays with the same number of programs, the first axis. The other axes stay."""
    count = max(map(len, arrays))
    return [np.broadcast_to(array, (count, *array.shape[1:])) for array in arrays]


def _comparison(op: Callable[..., np.ndarray]) -> Callable[..., TensorHandle]:
    def compare(_self: Arithmetic, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        dtype = lhs.dtype.scalar
        return TensorHandle(op(decode(lhs.data, dtype), decode(rhs.data, dtype)), tl.int1)

    return compare


def _unary(op: Callable[[np.ndarray], np.ndarray]) -> Callable[..., TensorHandle]:
    return lambda self, arg: self.unary_op(arg, op)


for _name, _op in COMPARISONS.items():
    setattr(Arithmetic, f"create_{_name}", _comparison(_op))
for _name, _op in UNARY.items():
    setattr(Arithmetic, f"create_{_name}", _unary(_op))


def _float32_product(left: np.ndarray, right: np.ndarray, precision: str) -> np.ndarray:
    """The matrix product of float32 arrays in a precision mode of tl.dot, as float64.

    "TF32" rounds the factors to tf32, "TF32x3" adds up three products of tf32, any other mode keeps float32.
    """
    if precision == "TF32":
        return np.matmul(round_to_tf32(left).astype(np.float64), round_to_tf32(right).astype(np.float64))
    if precision == "TF32x3":
        big = [round_to_tf32(side) for side in (left, right)]
        small = [round_to_tf32(side - rounded) for side, rounded in zip((left, right), big, strict=True)]
        pairs = ((small[0], big[1]), (big[0], small[1]), (big[0], big[1]))
        return sum(np.matmul(a.astype(np.float64), b.astype(np.float64)) for a, b in pairs)
    return np.matmul(left.astype(np.float64), right.astype(np.float64))


def _high_of_128(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The high 64 bits of products of uint64 arrays, computed from their 32-bit halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b, c, d = left >> half, left & low, right >> half, right & low
    middle = a * d + ((b * d) >> half)
    return a * c + (middle >> half) + ((b * c + (middle & low)) >> half)
