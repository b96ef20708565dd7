"""Measures how often the check calls a correct sum wrong, and how many planted errors it finds.

    python benchmarks/summation.py                       # 1 to 100,000 terms, 20 seeds: a few minutes
    python benchmarks/summation.py --terms 1000000 --seeds 3

A correct candidate computes what eager does, but sums in another order: one element after the other, or in 8 or 16
lanes. The table has for each function and number of terms: the runs, those that the check calls wrong, and the share of
planted errors that it finds. A planted error moves one element of one result by 8 times the larger of 1 ulp and the
sensitivity that the check itself measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.cases.tolerance_policy import Policy
from conformance.numerics.comparison import CallComparison, Comparison
from conformance.numerics.measurement import ulp_of
from conformance.numerics.outcome import Arguments
from conformance.numerics.torch_references import functional_decompositions

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LANES = (1, 8, 16)
ROWS = 3


def rows_of(terms: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(ROWS, terms, generator=generator)


def columns_of(terms: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(terms, 8, generator=generator)


def positive_rows(terms: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(ROWS, terms, generator=generator)


def weight_gradient(x: torch.Tensor) -> torch.Tensor:
    weight = torch.ones(8, dtype=x.dtype)
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, (8,), weight, weight, 1e-5)
    cotangent = x.roll(1, 0)
    return torch.ops.aten.native_layer_norm_backward(cotangent, x, (8,), mean, rstd, weight, weight, [True] * 3)[1]


#: Name → (function of one tensor, what draws it).
FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[..., torch.Tensor]]] = {
    "sum": (lambda x: x.sum(-1), rows_of),
    "sum, one sign": (lambda x: x.sum(-1), positive_rows),
    "mean": (lambda x: x.mean(-1), rows_of),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), rows_of),
    "var": (lambda x: x.var(-1, correction=0), rows_of),
    "softmax": (lambda x: x.softmax(-1), rows_of),
    "logsumexp": (lambda x: x.logsumexp(-1), rows_of),
    "mse_loss": (lambda x: functional.mse_loss(x, x.roll(1, -1)), rows_of),
    "layer_norm": (lambda x: functional.layer_norm(x, (x.shape[-1],)), rows_of),
    "layer_norm of columns": (lambda x: functional.layer_norm(x, (8,), x[0], x[-1]), columns_of),
    # Not functional.batch_norm: that one refuses a single term.
    "batch_norm": (lambda x: torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False), columns_of),
    "gradient of layer_norm's weight": (weight_gradient, columns_of),
    "product": (lambda x: x @ x.mT, rows_of),
}


class _InLanes(TorchDispatchMode):
    """Inside, sums and products of matrices are computed in float32 in `lanes` sums, which are then added in order."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self._decompositions = functional_decompositions()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if decomposition := self._decompositions.get(func):
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = func.overloadpacket.__name__
        if name in ("sum", "mean", "var", "var_mean"):
            return self._reduced(name, args, kwargs)
        if name == "mm":
            left, right = (tensor.float() for tensor in args)
            return self._sum((left[:, None, :] * right.mT[None]), (-1,), False).to(args[0].dtype)
        return func(*args, **kwargs)

    def _reduced(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        dims = args[1] if len(args) > 1 and args[1] is not None else kwargs.get("dim") or range(args[0].dim())
        keepdim = bool(args[2] if len(args) > 2 else kwargs.get("keepdim", False))
        x = args[0].float()
        dims = tuple(dims)
        count = 1
        for dim in dims:
            count *= x.shape[dim]
        dtype = kwargs.get("dtype") or args[0].dtype
        if name == "sum":
            return self._sum(x, dims, keepdim).to(dtype)
        mean = self._sum(x, dims, True) / count
        kept = mean if keepdim else mean.squeeze(dims)
        if name == "mean":
            return kept.to(dtype)
        variance = self._sum((x - mean) ** 2, dims, keepdim) / (count - kwargs.get("correction", 1))
        return variance.to(dtype) if name == "var" else (variance.to(dtype), kept.to(dtype))

    def _sum(self, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        rest = [d for d in range(x.dim()) if d not in {dim % x.dim() for dim in dims}]
        kept = [x.shape[d] for d in rest]
        flat = x.permute(*rest, *sorted({dim % x.dim() for dim in dims})).reshape(*kept, -1)
        padding = -flat.shape[-1] % self.lanes
        lanes = functional.pad(flat, (0, padding)).reshape(*kept, -1, self.lanes).numpy()
        sums = np.add.accumulate(lanes, axis=-2, dtype=np.float32)[..., -1, :]
        total = torch.from_numpy(np.add.accumulate(sums, axis=-1, dtype=np.float32)[..., -1].copy())
        if keepdim:
            for dim in sorted(dim % x.dim() for dim in dims):
                total = total.unsqueeze(dim)
        return total


def run(name: str, terms: int, dtype: torch.dtype, seed: int, lanes: int) -> tuple[bool, bool]:
    """(whether the check calls the correct candidate wrong, whether it finds the planted error)."""
    function, draw = FUNCTIONS[name]
    x = draw(terms, torch.Generator().manual_seed(seed)).to(dtype)

    def in_lanes(x: torch.Tensor) -> torch.Tensor:
        with _InLanes(lanes):
            return function(x)

    wrong = list(_comparison(function, x).problems(in_lanes))
    call = _comparison(function, x)
    reference = call.reference({})
    wide = reference.outputs["output"]
    unit = torch.maximum(call.sensitivity("outputs", "output", wide), ulp_of(wide.abs(), dtype)).flatten()
    index = int(torch.randint(wide.numel(), (), generator=torch.Generator().manual_seed(seed)))

    def mistaken(x: torch.Tensor) -> torch.Tensor:
        result = function(x)
        if result.dtype == dtype:
            result = result.clone()
            result.view(-1)[index] = wide.flatten()[index] + 8 * unit[index]
        return result

    return bool(wrong), bool(list(_comparison(function, x).problems(mistaken)))


def _comparison(function: Callable[..., Any], x: torch.Tensor) -> CallComparison:
    arguments = Arguments(kwargs={"x": x})
    return CallComparison(function, arguments, "cpu", Policy(), "", Comparison(), "first", layout=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terms", type=int, nargs="*", default=[1, 10, 100, 1000, 4352, 30000, 100000], metavar="N")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="runs of each, with other numbers")
    parser.add_argument("--dtype", nargs="*", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--only", default="", metavar="TEXT", help="only functions whose name contains TEXT")
    options = parser.parse_args()
    print("| function | terms | runs | called wrong | planted errors found |\n|---|---:|---:|---:|---:|")
    total = [0, 0, 0]
    for name in FUNCTIONS:
        for terms in options.terms if options.only in name else ():
            results = [
                run(name, terms, DTYPES[dtype], seed, LANES[seed % len(LANES)])
                for dtype in options.dtype
                for seed in range(options.seeds)
            ]
            wrong, found = (sum(each) for each in zip(*results, strict=True))
            print(f"| {name} | {terms} | {len(results)} | {wrong} | {found / len(results):.0%} |", flush=True)
            total = [before + new for before, new in zip(total, (len(results), wrong, found), strict=True)]
    print(f"| all | | {total[0]} | {total[1]} | {total[2] / max(total[0], 1):.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
