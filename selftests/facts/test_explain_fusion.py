"""Why Inductor does not fuse kernels that share data: each known reason, and no reason when its rule is removed."""

from __future__ import annotations

import re

import pytest
from capturing import captured, facts_of

from conformance.capture.observers import fusion
from conformance.cases.inputs import tensor
from conformance.facts import extract


def functional():
    import torch

    return torch.nn.functional


def both_sums(x):
    return x.sum(0), x.sum(1)


def flip_and_add(x):
    return x.flip(-1), x + 1


def normalise(x, w, b):
    return functional().gelu(functional().layer_norm(x, (1000,), w, b))


def product(a, b):
    return (a @ b).relu() + 1


def total(x):
    return x.sum()


MATRIX = {"x": tensor(64, 1000)}
FLIPPED = {"x": tensor(64, 64)}
SQUARES = {"a": tensor(64, 64), "b": tensor(64, 64)}
NORM = {"x": tensor(64, 1000), "w": tensor(1000), "b": tensor(1000)}
INDICES = "no shared data (one buffer at other indices)"

KNOWN = [
    (lambda x: x.softmax(-1), MATRIX, "cpu_avx512", "none"),
    (lambda x: x.softmax(-1), MATRIX, "xpu_pvc", "none"),
    (
        lambda x: x / x.sum(),
        MATRIX,
        "cpu_avx2",
        "1 nests 1 and 2: loops differ, [64000] and 64000, and no outer loop is",
    ),
    (both_sums, MATRIX, "cpu_avx512", f"1 nests 1 and 2: {INDICES}"),
    (flip_and_add, FLIPPED, "cuda_sm90", f"1 and 2: {INDICES}"),
    (flip_and_add, FLIPPED, "xpu_pvc", f"1 and 2: {INDICES}"),
    (total, {"x": tensor(4_000_000)}, "cuda_sm90", "1 and 2: numel/rnumel mismatch (reduce) (489, 1), (8180, 489)"),
    (product, SQUARES, "cpu_avx512", "mm and 1: a library call is not fused"),
    (product, SQUARES, "xpu_pvc", "mm and 1: a library call is not fused"),
    (lambda x: x.sort()[0] + 1, MATRIX, "cpu_avx512", "aten.sort and 1: a fallback is not fused"),
]


@pytest.mark.parametrize(("function", "arguments", "target", "says"), KNOWN)
def test_one_known_reason(function, arguments, target, says):
    found = facts_of(function, target, **arguments)
    assert found.lines()["unfused"].startswith(says)
    assert found.value("unfused") == (says != "none")


def test_modules_and_their_kernels_are_named_as_in_kernels():
    found = facts_of(product, grad="a b", **SQUARES)
    assert found.lines()["unfused"] == (
        "3\n  mm and 1 forward: a library call is not fused\n  2 backward and mm: a library call is not fused (2 times)"
    )


def test_an_outer_loop_that_is_given_up():
    """The scheduler fuses them; later the generator finds that only one of them vectorises the shared loop."""
    capture = captured(normalise, grad="x w b", **NORM)
    text = extract(capture).lines()["unfused"]
    reason = "put into one outer loop and taken apart again, x0 goes in steps of 1 and of 16"
    assert re.search(rf"1 forward nests 1, 2, 3(, 4, 5)?: {reason}", text), text
    assert "in one outer loop" not in extract(capture).lines()["kernels"].split("\n")[1]


@pytest.mark.parametrize(
    ("config", "target", "says"),
    [
        ({"cpp.max_horizontal_fusion_size": 1}, "cpu_avx512", "too many operators for one kernel (cpp.max_horizontal"),
        ({"max_fusion_size": 1}, "cpu_avx512", "too many operators for one kernel (max_fusion_size)"),
        ({"max_fusion_size": 1}, "cuda_sm90", "too many operators for one kernel (max_fusion_size)"),
    ],
)
def test_limits(config, target, says):
    def both(x):
        return x + 1, x * 2

    assert facts_of(both, target, x=tensor(64)).value("unfused") == 0
    assert says in facts_of(both, target, config=config, x=tensor(64)).lines()["unfused"]


class TestWithoutTheRule:
    """Each reason is Inductor's: without its rule the kernels are fused, or another rule refuses."""

    def test_of_its_heuristics(self, monkeypatch):
        from torch._inductor.choices import InductorChoices

        assert INDICES in facts_of(flip_and_add, "cuda_sm90", **FLIPPED).lines()["unfused"]
        for rule in ("can_fuse", "can_fuse_horizontal"):
            monkeypatch.setattr(InductorChoices, rule, staticmethod(lambda *_, **__: True))
        found = facts_of(flip_and_add, "cuda_sm90", **FLIPPED)
        assert (found.value("unfused"), found.value("kernels")) == (0, 1)

    def test_of_the_cpp_backend(self, monkeypatch):
        from torch._inductor.codegen.cpp import CppScheduling

        def both(x):
            return x + 1, x * 2

        config = {"cpp.max_horizontal_fusion_size": 1}
        assert facts_of(both, config=config, x=tensor(64)).value("unfused") == 1
        monkeypatch.setattr(CppScheduling, "can_fuse_horizontal", CppScheduling._can_fuse_horizontal_impl)
        assert facts_of(both, config=config, x=tensor(64)).value("unfused") == 0

    def test_of_the_triton_backend(self, monkeypatch):
        from torch._inductor.codegen.triton import TritonScheduling

        monkeypatch.setattr(TritonScheduling, "can_fuse_horizontal", lambda *_: False)

        def both(x):
            return x + 1, x * 2

        assert facts_of(both, "cuda_sm90", x=tensor(64)).lines()["unfused"] == f"1 and 2: {fusion.UNKNOWN}"


def test_long_lists_are_cut_and_counted():
    def many(x):
        return [x.sum(dim) for dim in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))]

    lines = facts_of(many, "cuda_sm90", x=tensor(8, 16, 32)).lines()["unfused"].split("\n")
    assert len(lines) == 10
    assert re.fullmatch(r"  and \d+ more: .*\(\d+ times\).*", lines[-1]), lines[-1]
    shown = sum(int(times) for times in re.findall(r"\((\d+) times\)", "\n".join(lines[1:-1])))
    shown += sum(not line.endswith(" times)") for line in lines[1:-1])
    assert int(lines[0]) == shown + int(lines[-1].split()[1])
