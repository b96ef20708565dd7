"""Reasons for fallbacks, graph breaks and reductions; the text of `show --why`; observers change nothing."""

from __future__ import annotations

import re

import pytest
from capturing import captured, facts_of

from conformance.capture.observers import fallbacks, kernels
from conformance.cases.inputs import image, tensor
from conformance.facts import extract
from conformance.facts.explain import explanation


def attention(q, k, v):
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def normalise(x, w, b):
    import torch

    return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (1000,), w, b))


HEADS = {name: tensor(2, 4, 16, 32) for name in "qkv"}
SCATTERED = {"x": tensor(640), "i": tensor(640, dtype="i64", low=0, high=640)}


def scatter(x, i):
    return x.scatter_add(0, i, x + 1)


def pooled(x):
    import torch

    return torch.nn.functional.adaptive_max_pool2d(x, (7, 3))


FALLBACKS = [
    (
        attention,
        HEADS,
        "cpu_avx512",
        "aten._scaled_dot_product_flash_attention_for_cpu (make_fallback: no lowering)",
    ),
    (lambda x: x.histc(), {"x": tensor(64)}, "xpu_pvc", "aten.histc (make_fallback: no lowering)"),
    (lambda x: x.sort()[0], {"x": tensor(64, 100)}, "cpu_avx2", "aten.sort (the backend has no SORT)"),
    (lambda x: x.cumsum(0), {"x": tensor(64)}, "cpu_avx512", "aten.cumsum (the backend has no SCAN)"),
    (lambda x: x.cumsum(0), {"x": tensor(64)}, "cuda_sm90", "none"),
    (scatter, SCATTERED, "cpu_avx512", "aten.scatter_reduce_ (use_scatter_fallback: sum of float32 on cpu)"),
    (scatter, SCATTERED, "cuda_sm90", "none"),
    (
        lambda x: x * 2 + 1,
        {"x": tensor(64, dtype="c64")},
        "cuda_sm90",
        "aten.mul (input of dtype complex64: not generated), aten.add (input of dtype complex64: not generated)",
    ),
    (
        pooled,
        {"x": tensor(1, 1, 64, 64)},
        "cpu_avx512",
        "aten.adaptive_max_pool2d (the lowering gives up if window_size > 25)",
    ),
]


class TestFallbacks:
    @pytest.mark.parametrize(("function", "arguments", "target", "says"), FALLBACKS)
    def test_one_known_reason(self, function, arguments, target, says):
        found = facts_of(function, target, **arguments)
        assert found.lines()["fallbacks"] == says
        assert found.value("fallbacks") == [each.split(" (")[0] for each in says.split("), ") if each != "none"]

    def test_a_custom_operator_again_and_again(self):
        """The first capture registers the operator. Later captures find it registered, and have the same reason."""
        import torch

        with torch.library._scoped_library("conformance_reasons", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
            torch.library.register_fake("conformance_reasons::twice", torch.empty_like, lib=library)
            for _ in range(2):
                found = facts_of(lambda x: torch.ops.conformance_reasons.twice(x) + 1, x=tensor(64))
                assert found.lines()["fallbacks"] == "conformance_reasons.twice (custom operator)"

    def test_without_the_rule_there_is_no_fallback(self, monkeypatch):
        from torch._inductor import lowering

        monkeypatch.setattr(lowering, "use_scatter_fallback", lambda *_: False)
        assert facts_of(scatter, **SCATTERED).lines()["fallbacks"] == "none"

    def test_a_reason_is_told_once_for_each_module(self):
        def twice(q, k, v):
            return attention(attention(q, k, v), k, v)

        name = "aten._scaled_dot_product_flash_attention_for_cpu"
        assert facts_of(twice, **HEADS).lines()["fallbacks"] == f"{name} (make_fallback: no lowering), {name}"

    def test_every_fallback_has_one(self):
        assert fallbacks.registered_fallbacks(), "nothing is a fallback in this torch"


class TestGraphBreaks:
    def test_the_reason_and_the_line(self):
        def broken(x):
            import torch

            y = x + 1
            torch._dynamo.graph_break()
            return y * 2

        line = "Call to `torch._dynamo.graph_break()` at `torch._dynamo.graph_break()`"
        assert facts_of(broken, x=tensor(64)).lines()["graph_breaks"] == f"1\n  {line}"

    def test_a_branch_on_data_which_dynamo_does_not_count(self):
        def branch(x):
            if x.sum() > 0:
                return x * 2
            return x

        capture = captured(branch, x=tensor(64))
        assert capture.counters.get("graph_break", {}) == {}
        found = extract(capture)
        assert found.value("graph_breaks") == 1
        assert found.lines()["graph_breaks"] == "1\n  data-dependent branch at `if x.sum() > 0:`"

    def test_several(self):
        def printed(x):
            n = x.sum().item()
            print(end="")
            return x + n

        first, *rest = facts_of(printed, x=tensor(64)).lines()["graph_breaks"].split("\n")
        assert first == str(len(rest))
        assert "  Unsupported Tensor.item() call with capture_scalar_outputs=False at `n = x.sum().item()`" in rest


class TestWhy:
    def test_the_flip(self):
        assert explanation(captured(lambda x: x.flip(-1), x=image(dtype="u8"))).split("\n")[1] == (
            "  not vectorised: load index 224*x0 - x1 + 223 is not contiguous in x1 (stride -1), 1 of 2 operations"
        )

    def test_all_that_there_is(self):
        def everything(x):
            import torch

            y = (x.sort()[0] + torch.special.bessel_j0(x)).softmax(-1)
            torch._dynamo.graph_break()
            return y.flip(-1)

        text = explanation(captured(everything, x=tensor(64, 1000)))
        for part in (
            "kernel 1 graph 1 inference: ",
            "not in vectors: bessel_j0 element by element (no vector code)",
            "not fused, though they share data:\n  aten.sort and 1 graph 1 inference",
            "fallbacks:\n  graph 1 inference: aten.sort: the backend has no SORT",
            "graph breaks:\n  Call to `torch._dynamo.graph_break()`",
            "not vectorised: load index ",
        ):
            assert part in text

    @pytest.mark.parametrize(("target", "multiprocessors"), [("cuda_sm90", 132), ("xpu_pvc", 64)])
    def test_the_numbers_of_a_split_reduction(self, target, multiprocessors):
        text = explanation(captured(lambda x: x.sum(), target, x=tensor(4_000_000)))
        assert (
            f"1 result of 4000000 elements, INNER: split into 489 parts for {multiprocessors} multiprocessors" in text
        )
        assert "1 result of 489 elements, INNER: persistent (the limit is 1024 elements)" in text

    def test_the_list_that_an_operator_without_lowering_is_in(self):
        name = "aten._scaled_dot_product_flash_attention_for_cpu"
        text = explanation(captured(attention, **HEADS))
        assert f"{name}: make_fallback: no lowering, listed by Inductor under: Pattern-matched\n" in text

    def test_a_rewrite(self):
        def by_hand(q, k, v):
            return (q @ k.transpose(-2, -1)).div(5.0).softmax(-1) @ v

        assert "rewritten by patterns:\n  fuse_attention" in explanation(captured(by_hand, **HEADS))


class TestWatching:
    def test_changes_nothing_in_the_code(self, monkeypatch):
        watched = {target: codes(target) for target in ("cpu_avx512", "cuda_sm90")}
        assert all(text.strip() for code in watched.values() for text in code)
        monkeypatch.setattr(kernels, "patches", list)
        monkeypatch.setattr(kernels, "observations", lambda _: {})
        assert {target: codes(target) for target in watched} == watched

    def test_is_repeated_word_for_word(self):
        arguments = {"x": tensor(64, 1000), "w": tensor(1000), "b": tensor(1000)}
        first, second = (explanation(captured(normalise, grad="x w b", **arguments)) for _ in range(2))
        assert first == second


def codes(target: str) -> list[str]:
    arguments = {"x": tensor(64, 1000), "w": tensor(1000), "b": tensor(1000)}
    captures = [captured(normalise, target, grad="x w b", **arguments), captured(scatter, target, **SCATTERED)]
    codes = [module.code for capture in captures for module in capture.modules]
    return [re.sub(r"^# AOT ID: .*", "", code) for code in codes]  # torch counts all graphs of the process
