"""Kernels that users of Intel GPUs posted, generated again without the device.

Each program below gives the kernel of a public issue; `source` names it. The expected values are those of the posted
kernel. A value that the post does not show is left out. txo is intel/torch-xpu-ops, ixbt is
intel/intel-xpu-backend-for-triton. Where the program was not posted, it follows from the kernel's name, its arguments
and the model.

Not compared: num_warps and the blocks, which are chosen when the kernel runs; eviction policies, which changed between
the posts and torch 2.13 (pytorch#184395); names of kernels, which follow the whole graph.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import capturing  # noqa: F401 - it prepares this process
import pytest
import torch
from torch.nn import functional

from conformance.capture.wrappers import unloaded
from conformance.cases.case import Case
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.environment import torch_build
from conformance.devices.targets import targets

HALF = torch.float16


class MadeCase(Case):
    """A case whose arguments are functions that make the values."""

    def build(self, seed: int = 0) -> dict[str, Any]:  # noqa: ARG002 - the arguments are not drawn
        return {name: make() for name, make in self.arguments.items()}


@dataclass(frozen=True)
class Kernel:
    """What the decorator and the source of a Triton kernel say. None: the post does not show it.

    `kind`: pointwise, reduction or persistent_reduction. `signature`: argument → type, without the blocks.
    `counts`: loads, stores and reductions, as Inductor counts them. `loops`: over the reduction.
    """

    kind: str | None = None
    size_hints: dict[str, int] | None = None
    reduction_hint: str | None = None
    tile_hint: str | None = None
    signature: dict[str, str] | None = None
    counts: tuple[int, int, int] | None = None
    tiling_scores: dict[str, int] | None = None
    loops: int | None = None

    def shown(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Posted:
    """One program and the kernels that were posted of it, in the order of the code.

    `since`, `before`: the torch versions that give these kernels.
    """

    source: str
    target: str
    program: Callable[..., Any]
    arguments: dict[str, Callable[[], torch.Tensor]]
    kernels: tuple[Kernel, ...]
    config: dict[str, Any] = field(default_factory=dict)
    since: tuple[int, int] = (2, 11)
    before: tuple[int, int] = (9, 0)


def empty(*shape: int, dtype: torch.dtype = HALF, grad: bool = False, **options: Any) -> Callable[[], torch.Tensor]:
    return lambda: torch.empty(*shape, dtype=dtype, **options).requires_grad_(grad)


@torch.library.custom_op("posted::scores", mutates_args=())
def scores(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A large result of a library call, in place of a product of matrices: kernels may write over it."""
    return x.new_empty(rows, columns)


@scores.register_fake
def _(x, rows, columns):
    return x.new_empty(rows, columns)


scores.register_autograd(lambda _ctx, _gradient: (None, None, None))


def gelu_of_linear(x, w, b):
    return functional.gelu(functional.linear(x, w, b))


def batch_norm_and_gelu(x, m, v, w, b):
    return functional.gelu(functional.batch_norm(x, m, v, w, b, training=False))


def heads_last(x):
    return x.permute(0, 3, 1, 2).reshape(16, 784, 768).clone(memory_format=torch.contiguous_format)


def residual_and_layer_norm(x, z, g, w, b):
    return functional.layer_norm((x + g * z).float(), (768,), w.float(), b.float(), 1e-6).half()


def softmax_of_scores(x, bias):
    """The attention of T5. `bias`: for all batches."""
    biased = scores(x, 262144, bias.shape[-1]).view(-1, *bias.shape[1:]) + bias
    return torch.softmax(biased.float(), -1).to(biased.dtype)


def softmax_and_dropout(x):
    return functional.dropout(torch.softmax(scores(x, 131072, 512) + x, -1), 0.1, True)


def softmax_backward(g, z, bias, top, total):
    """Of attention, with the heads innermost in memory. `top`, `total`: the maximum and the sum of each row."""
    top, total = (each.squeeze(-1).permute(0, 2, 1).unsqueeze(2) for each in (top, total))
    y = torch.exp(z + bias - top) / total
    product = (g * y).permute(0, 3, 1, 2).contiguous()
    return product - y.permute(0, 3, 1, 2) * product.sum(-1, keepdim=True)


def embedding_and_layer_norm(ids, words, kinds, places, w, b):
    return functional.layer_norm(words[ids] + kinds + places, (128,), w, b)


def softmax_of_trailing(x):
    return torch.softmax(x.reshape(2, -1), -1)


def softmax(x):
    return torch.softmax(x, -1)


SOFTMAX_OF_SCORES = {"in_out_ptr0": "*fp16", "in_ptr0": "*fp16", "xnumel": "i32", "r0_numel": "i32"}
FLOAT = torch.float32

POSTED = [
    Posted(
        "ixbt#7097: xcit_large_24_p8_224 on PVC",
        "xpu_pvc",
        gelu_of_linear,
        {"x": empty(12544, 768), "w": empty(3072, 768), "b": empty(3072)},
        (Kernel("pointwise", {"x": 67108864}, signature={"in_out_ptr0": "*fp16", "xnumel": "i32"}, counts=(1, 1, 0)),),
    ),
    Posted(
        "ixbt#7081: xcit_large_24_p8_224 on PVC",
        "xpu_pvc",
        batch_norm_and_gelu,
        {"x": empty(16, 192, 112, 112, memory_format=torch.channels_last)} | {name: empty(192) for name in "mvwb"},
        (
            Kernel(
                "pointwise",
                {"x": 67108864},
                signature={f"in_ptr{n}": "*fp16" for n in range(5)} | {"out_ptr1": "*fp16", "xnumel": "i32"},
            ),
        ),
    ),
    Posted(
        "ixbt#7094: xcit_large_24_p8_224 on PVC",
        "xpu_pvc",
        heads_last,
        {"x": empty(16, 16, 48, 784)},
        (
            Kernel(
                "pointwise",
                {"y": 16384, "x": 1024},
                tile_hint="SQUARE",
                signature={"in_ptr0": "*fp16", "out_ptr0": "*fp16", "ynumel": "i32", "xnumel": "i32"},
            ),
        ),
    ),
    Posted(
        "ixbt#7098: xcit_large_24_p8_224 on PVC",
        "xpu_pvc",
        residual_and_layer_norm,
        {"x": empty(16, 784, 768), "z": empty(16, 784, 768)} | {name: empty(768) for name in "gwb"},
        (Kernel("persistent_reduction", counts=(5, 1, 4), tiling_scores={"x": 0, "r0_": 77074944}, loops=0),),
    ),
    Posted(
        "txo#2654: T5 on B580",
        "xpu_bmg",
        softmax_of_scores,
        {"x": empty(8), "bias": empty(1, 8, 1024, 1024)},
        (Kernel("persistent_reduction", {"x": 262144, "r0_": 1024}, "INNER", signature=SOFTMAX_OF_SCORES, loops=0),),
    ),
    Posted(
        "ixbt#5763: T5 on B580, with online softmax",
        "xpu_bmg",
        softmax_of_scores,
        {"x": empty(8), "bias": empty(1, 8, 2048, 2048)},
        (Kernel("reduction", {"x": 262144, "r0_": 2048}, "INNER", signature=SOFTMAX_OF_SCORES, loops=2),),
    ),
    Posted(
        "pytorch#169256: softmax and dropout on B580",
        "xpu_bmg",
        softmax_and_dropout,
        {"x": empty(131072, 1, dtype=FLOAT, grad=True)},
        (Kernel("persistent_reduction", {"x": 131072, "r0_": 512}, "INNER", loops=0),),
    ),
    Posted(
        "ixbt#7610, program in pytorch#193722: softmax backward on PVC",
        "xpu_pvc",
        softmax_backward,
        {"bias": empty(16, dtype=FLOAT)}
        | {name: empty(4, 576, 576, 16, dtype=FLOAT) for name in "gz"}
        | {name: empty(4, 16, 576, 1, dtype=FLOAT) for name in ("top", "total")},
        (Kernel("reduction", {"x": 65536, "r0_": 1024}, "INNER"),),
        since=(2, 13),  # 2.11 has no loop_reindexing_after_fusion, so it writes three kernels
        before=(2, 15),  # 2.15 keeps the sizes and the hint, and makes the kernel persistent
    ),
    Posted(
        "ixbt#2644: ALBERT on PVC",
        "xpu_pvc",
        embedding_and_layer_norm,
        {
            "ids": lambda: torch.zeros(512, dtype=torch.int64),
            "words": empty(30000, 128, dtype=FLOAT),
            "kinds": empty(128, dtype=FLOAT),
            "places": empty(512, 128, dtype=FLOAT),
            "w": empty(128, dtype=FLOAT),
            "b": empty(128, dtype=FLOAT),
        },
        (
            Kernel(
                "persistent_reduction",
                {"x": 512, "r0_": 128},
                "INNER",
                signature={"in_ptr0": "*i64"}
                | {f"in_ptr{n}": "*fp32" for n in range(1, 6)}
                | {"out_ptr2": "*fp32", "xnumel": "i32", "r0_numel": "i32"},
                loops=0,
            ),
        ),
    ),
    Posted(
        "ixbt#5902: upstream's test_2d_reduction_multi_kernel",
        "xpu_pvc",
        softmax_of_trailing,
        {"x": lambda: torch.empty(2, 8, 2048).as_strided((2, 4, 1024), (16384, 2048, 1))},
        (Kernel("reduction"), Kernel("persistent_reduction")),
        config={
            "triton.use_block_ptr": True,
            "triton.prefer_nd_tiling": True,
            "triton.tile_reductions": True,
            "triton.multi_kernel": 1,
        },
    ),
    *(
        Posted(
            f"upstream's test_online_softmax, which runs on xpu, with {columns} columns",
            "xpu_pvc",
            softmax,
            {"x": empty(512, columns, dtype=FLOAT)},
            (Kernel(loops=loops),),
        )
        for columns, loops in ((1024, 0), (2048, 2), (50304, 2))
    ),
]


def kernels_of(code: str) -> list[Kernel]:
    """The kernels of generated code, in order, with all values."""
    return [_kernel(source) for source in re.findall(r"async_compile\.triton\('\w+', '''(.*?)'''", code, re.DOTALL)]


def _kernel(source: str) -> Kernel:
    def found(pattern: str) -> Any:
        match = re.search(pattern, source)
        return match and match[1]

    def literal(pattern: str) -> Any:
        text = found(pattern)
        return None if text is None else ast.literal_eval(text)

    signature = literal(r"'signature': (\{[^}]*\})")
    counts = tuple(literal(rf"'num_{name}': (\d+)") for name in ("load", "store", "reduction"))
    return Kernel(
        found(r"@triton_heuristics\.(\w+)"),
        literal(r"size_hints=(\{[^}]*\})"),
        found(r"ReductionHint\.(\w+),"),
        found(r"tile_hint=TileHint\.(\w+)"),
        {name: kind for name, kind in signature.items() if kind != "constexpr"},
        counts,  # type: ignore[arg-type] - three of them
        literal(r"'tiling_scores': (\{[^}]*\})"),
        source.count("for r0_offset"),
    )


def uncomputed(graph: Any) -> Callable[[list[Any]], Any]:
    """In place of unloaded.eager_function: results without values, which would take gigabytes and a minute."""
    lowered = unloaded._graph_to_call(graph.orig_gm)

    def call(args: list[Any]) -> Any:
        values = list(args)
        args.clear()
        return unloaded._uninitialised_results(lowered, values)

    return call


@pytest.mark.parametrize("posted", POSTED, ids=[each.source for each in POSTED])
def test_a_posted_kernel(posted, monkeypatch):
    monkeypatch.setattr(unloaded, "eager_function", uncomputed)
    if not posted.since <= torch_build().release < posted.before:
        pytest.skip("the kernel was posted with another version of torch, and versions differ in it")
    grad = tuple(name for name, make in posted.arguments.items() if make().requires_grad)
    case = MadeCase(
        "posted", posted.program.__name__, (), posted.program, Path(__file__), posted.arguments, grad=grad,
        config=posted.config,
    )  # fmt: skip
    with capture(CaseRequest(case, targets()[posted.target])) as result:
        found = kernels_of(result.capture.modules[0].code)
    shown = [
        {name: getattr(kernel, name) for name in wanted.shown()}
        for kernel, wanted in zip(found, posted.kernels, strict=False)  # further kernels are not of the post
    ]
    assert shown == [wanted.shown() for wanted in posted.kernels], found
