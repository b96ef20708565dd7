"""The best that the device can do for a case, measured beside it: a copy of the same number of bytes, or a product.

Bytes: each input tensor read once and each output written once. No implementation moves less. With gradients, the
cotangents and the gradients count as well. Elements that a stride of 0 repeats count once. Memory that an output shares
with an input counts once: a view costs nothing. The copy moves the same number of bytes (half read, half written)
between two existing buffers. It takes turns with the case on the same threads: if the case's data fit in a cache, so do
the copy's. The allocation of an output is the case's own cost. On a GPU both start with an empty cache.

Floating-point operations: those that torch.utils.flop_counter counts, of products, convolutions and attention. Their
rate is the rate of one large product of square matrices of the case's dtype, measured once in a run.

The limit is the slower of the two, as in a roofline model. A case's fraction of the limit is the limit's time divided
by the case's time. For a few kilobytes, the copy is mostly the cost of one call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.bench.timing import Clock, Work, time_interleaved

if TYPE_CHECKING:
    import torch

#: Rows and columns of the matrices whose product gives the rate.
_MATRIX_SIZE = {"cpu": 1024}
_MATRIX_SIZE_GPU = 8192
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Limit:
    """`kind`: "copy", or "product" for a case that is bound by computing. `us`: microseconds of the copy or product."""

    kind: str
    us: float
    bytes: int
    flops: int = 0

    @property
    def rate(self) -> float:
        """Bytes or floating-point operations per second."""
        return (self.flops if self.kind == "product" else self.bytes) / self.us * _MICROSECONDS


def minimum_bytes(read: Iterable[torch.Tensor], written: Iterable[torch.Tensor]) -> int:
    """Returns the least bytes that are read and written. An output that shares storage with an input writes none."""
    read, written = list(read), list(written)
    read_storages = {tensor.untyped_storage().data_ptr() for tensor in read}
    new = [tensor for tensor in written if tensor.untyped_storage().data_ptr() not in read_storages]
    unique = {(t.data_ptr(), tuple(t.shape), t.stride(), t.dtype): _distinct_bytes(t) for t in (*read, *new)}
    return sum(unique.values())


def _distinct_bytes(tensor: torch.Tensor) -> int:
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride or not size else 1
    return elements * tensor.element_size()


class _NoModules(contextlib.nullcontext[None]):
    """In place of the counter's tracker of modules, whose hooks refuse torch.autograd.grad() (2.13)."""

    parents = ("Global",)
    is_bw = False


def count_flops(call: Callable[[], Any]) -> int:
    """Returns the floating-point operations of one eager call. Attention counts as the products that it consists of."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()
    with sdpa_kernel(SDPBackend.MATH), counter:
        call()
    return counter.get_total_flops()


def copy_work(size: int, device: str) -> Work:
    """Returns a copy that moves `size` bytes, at least two."""
    import torch

    source = torch.ones(max(1, size // 2), dtype=torch.uint8, device=device)
    return Work("target.copy_(source)", {"target": torch.empty_like(source), "source": source})


@dataclass
class Limits:
    """Measures the rate of products once for each dtype. `seconds`: for each measurement."""

    clock: Clock
    device: str
    seconds: float
    _rates: dict[Any, float] = field(default_factory=dict)

    def product_rate(self, dtype: torch.dtype) -> float:
        """Returns the floating-point operations per second of one large product."""
        if dtype not in self._rates:
            import torch

            n = _MATRIX_SIZE.get(self.device, _MATRIX_SIZE_GPU)
            a, b = (torch.ones(n, n, dtype=dtype, device=self.device) for _ in range(2))
            product = Work("mm(a, b)", {"mm": torch.mm, "a": a, "b": b})
            spread = time_interleaved({"product": product}, self.clock, self.seconds)
            self._rates[dtype] = 2 * n**3 / spread["product"].median * _MICROSECONDS
        return self._rates[dtype]

    def limit(self, copy_us: float, size: int, flops: int, dtype: torch.dtype | None) -> Limit:
        """`copy_us`: microseconds of the copy of `size` bytes, timed in turns with the case. `dtype`: of products."""
        computing = flops / self.product_rate(dtype) * _MICROSECONDS if flops and dtype is not None else 0.0
        if computing > copy_us:
            return Limit("product", round(computing, 4), size, flops)
        return Limit("copy", copy_us, size, flops)
