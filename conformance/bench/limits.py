"""What the device can do at best for a case, measured beside it: copying as many bytes, or multiplying matrices.

Bytes: each input tensor read once and each output written once, the least that any implementation moves; with gradients
also what comes into the backward, and the gradients. Elements that a stride of 0 repeats count once, and so does what
an output shares with an input: a view costs nothing. The copy moves as many bytes (half read, half written) between
two buffers that are there already, takes turns with the case on the same threads, and so is in cache where the case's
data are; an output that has to be allocated is the case's own cost. On a gpu both start with an empty cache.

Floating-point operations: those that torch.utils.flop_counter knows, of products, convolutions and attention. The rate
is that of one large product of square matrices of the case's dtype, measured once a run.

The limit is the slower of both, as in a roofline; a case's fraction of it is the limit's time over the case's. Of a few
kilobytes the copy is a call and hardly any copying: what one operator costs at least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.bench.timing import Clock, Work, in_turns

if TYPE_CHECKING:
    import torch

#: Rows and columns of the matrices whose product gives the rate.
_SQUARE = {"cpu": 1024}
_SQUARE_GPU = 8192
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Limit:
    """`kind`: copy, or product where the case is bound by computing. `us`: how long that takes, in microseconds."""

    kind: str
    us: float
    bytes: int
    flops: int = 0

    @property
    def rate(self) -> float:
        """Bytes or floating-point operations a second."""
        return (self.flops if self.kind == "product" else self.bytes) / self.us * _MICROSECONDS


def least_bytes(read: Iterable[torch.Tensor], written: Iterable[torch.Tensor]) -> int:
    """Bytes read and written at least; an output that shares its storage with what is read writes none."""
    read, written = list(read), list(written)
    known = {tensor.untyped_storage().data_ptr() for tensor in read}
    new = [tensor for tensor in written if tensor.untyped_storage().data_ptr() not in known]
    unique = {(t.data_ptr(), tuple(t.shape), t.stride(), t.dtype): _shown(t) for t in (*read, *new)}
    return sum(unique.values())


def _shown(tensor: torch.Tensor) -> int:
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride or not size else 1
    return elements * tensor.element_size()


def flops_of(call: Callable[[], Any]) -> int:
    """Of one eager call; attention is counted as the products that it consists of."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def copy_of(size: int, device: str) -> Work:
    """A copy that moves `size` bytes, at least two."""
    import torch

    source = torch.ones(max(1, size // 2), dtype=torch.uint8, device=device)
    return Work("target.copy_(source)", {"target": torch.empty_like(source), "source": source})


@dataclass
class Limits:
    """Measures what is asked for once a run. `seconds`: for each measurement."""

    clock: Clock
    device: str
    seconds: float
    _rates: dict[Any, float] = field(default_factory=dict)

    def rate(self, dtype: torch.dtype) -> float:
        """Floating-point operations a second, of one large product."""
        if dtype not in self._rates:
            import torch

            n = _SQUARE.get(self.device, _SQUARE_GPU)
            a, b = (torch.ones(n, n, dtype=dtype, device=self.device) for _ in range(2))
            spread = in_turns({"product": Work("mm(a, b)", {"mm": torch.mm, "a": a, "b": b})}, self.clock, self.seconds)
            self._rates[dtype] = 2 * n**3 / spread["product"].median * _MICROSECONDS
        return self._rates[dtype]

    def of(self, copy_us: float, size: int, flops: int, dtype: torch.dtype | None) -> Limit:
        """`copy_us`: how long the copy of `size` bytes took, in turn with the case. `dtype`: of the products."""
        computing = flops / self.rate(dtype) * _MICROSECONDS if flops and dtype is not None else 0.0
        if computing > copy_us:
            return Limit("product", round(computing, 4), size, flops)
        return Limit("copy", copy_us, size, flops)
