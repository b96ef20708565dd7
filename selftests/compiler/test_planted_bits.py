"""Losses of a property, planted into Inductor: each is found, with its reason."""

from __future__ import annotations

import contextlib

import pytest
import torch
from suites import NATIVE
from torch._inductor import choices, ir

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.bit_variants import BATCH, EAGER, RUN, SAME
from conformance.compiler import same_bits
from conformance.compiler.compiler import compiler_here
from conformance.devices.environment import torch_build

GPU = "cuda_sm90"
SUM = "lambda x: x.sum(-1)"


@pytest.fixture
def found():
    """The verdicts on a property that say that it is lost, or may be."""
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()

        def made(kind, function, target, x, options):
            case, _ = resolve_case(function, compiler.machine.targets(), AdhocOptions((f"x={x}",), (), False, ()))
            case = case.with_config(options)
            torch._dynamo.reset()
            verdicts = same_bits.verdicts(compiler, case, compiler.target(target), deviceless=False, kinds=[kind])
            return "\n".join(f"{each}" for each in verdicts if not each.mode and each.word != SAME)

        yield made


def splits_by_rows(monkeypatch):
    """The number of splits depends on the batch."""

    def factor(device, reduction_numel_hint, numel_hint, inner_reduction):
        return 1 if reduction_numel_hint < 10000 else 32 if numel_hint > 4 else 64

    monkeypatch.setattr(choices.InductorChoices, "reduction_split_factor", staticmethod(factor))


def persistent_by_rows(monkeypatch):
    """The row count decides whether a reduction is persistent."""

    def decide(features, cooperative_reduction):
        return int(features.numel) > 4

    monkeypatch.setattr(choices.InductorChoices, "should_use_persistent_reduction", staticmethod(decide))


def split_scan(monkeypatch):
    """A short scan is split over blocks, which add up what others have by then."""
    monkeypatch.setattr(ir.Scan, "num_splits", classmethod(lambda *_, **__: (ir.ReductionHint.DEFAULT, 2)))


#: Options of Inductor that lose a property, as a change of their default would.
OPTIONS = {
    "cooperative": {"triton.force_cooperative_reductions": True},
    "tuned": {"coordinate_descent_tuning": True},
    "template": {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"},
    "dynamic_threads": {"cpp.dynamic_threads": True},
    "contracted": {"cpp.enable_floating_point_contract_flag": "fast"},
    "scalar_tail": {"cpp.enable_loop_tail_vec": False},
    "narrow": {"emulate_precision_casts": False},
}
AXPY = "lambda x: x * 3.3 + x"
PLANTED = [
    (splits_by_rows, BATCH, SUM, GPU, "torch.randn(8, 100000)", "reduction [3125]; "),
    (persistent_by_rows, BATCH, SUM, GPU, "torch.randn(8, 500)", "persistent reduction [500]; "),
    (split_scan, RUN, "lambda x: x.cumsum(0)", GPU, "torch.randn(3000)", "adds up what other blocks have"),
    ("cooperative", BATCH, SUM, GPU, "torch.randn(64, 30000)", "cooperative"),
    ("tuned", RUN, SUM, GPU, "torch.randn(64, 3000)", "tunes its launch by time"),
    ("template", RUN, "lambda x: x @ x.t()", GPU, "torch.randn(64, 64)", "was faster than a library"),
    ("dynamic_threads", RUN, "lambda x: x.sum()", NATIVE, "torch.randn(300000)", "the number of threads is"),
    ("contracted", EAGER, AXPY, NATIVE, "torch.randn(300)", "may contract mul and add to one fma"),
    ("scalar_tail", BATCH, "lambda x: torch.nn.functional.gelu(x)", NATIVE, "torch.randn(4, 37)", "the tail is scalar"),
    ("narrow", EAGER, AXPY, NATIVE, "torch.randn(300).bfloat16()", "rounds to 16 bits only after all of mul, add"),
]


@pytest.mark.parametrize(
    ("plant", "kind", "function", "target", "x", "reason"),
    [pytest.param(*each, id=getattr(each[0], "__name__", each[0])) for each in PLANTED],
)
def test_a_planted_loss(found, monkeypatch, plant, kind, function, target, x, reason):
    if not target:
        pytest.skip("this machine runs no CPU target")
    if plant == "narrow" and torch_build().release < (2, 13):
        pytest.skip("before torch 2.13, emulate_precision_casts changes nothing on the CPU, so there is none to lose")
    own = {"emulate_precision_casts": True}
    assert reason not in found(kind, function, target, x, own)
    if callable(plant):
        plant(monkeypatch)
    assert reason in found(kind, function, target, x, own | OPTIONS.get(plant, {}))
