"""The search for the part of the compiler, with a compiler that is planted."""

from __future__ import annotations

import pytest

from conformance.capture.compiler_parts import LeftOut
from conformance.minimisation.compiler_part import Tried, find_part
from conformance.minimisation.trial import BACKENDS

APPLIED = {
    "post_grad_passes": ["one", "two", "three", "four", "five"],
    "decomposition": ["aten.a", "aten.b"],
    "lowerings": ["aten.c"],
}


class Compiler:
    """Wrong from a backend on; right without one application of a part, or with an option."""

    def __init__(self, backend, part="", number=0, option=""):
        self._from, self._part, self._number, self._option = BACKENDS.index(backend), part, number, option
        self.count = 0

    def __call__(self, backend, which, options):
        self.count += 1
        which = which or LeftOut()
        applied = {} if BACKENDS.index(backend) < 2 else APPLIED
        is_out = which.part == self._part and which.start <= self._number - 1 < which.stop
        fails = BACKENDS.index(backend) >= self._from and not is_out and self._option not in options
        return Tried(fails, applied)


def find(compiler):
    return find_part(compiler, lambda option: option != "split_reductions")


@pytest.mark.parametrize("number", range(1, 6))
def test_a_pass(number):
    compiler = Compiler("inductor", "post_grad_passes", number)
    part = find(compiler)
    assert (part.part, part.name, part.number, part.alone) == (
        "post_grad_passes",
        APPLIED["post_grad_passes"][number - 1],
        number,
        True,
    )
    assert part.lines() == [
        f"wrong from: backend inductor, pass after AOTAutograd {part.name} (application {number} of 5)"
    ]
    assert compiler.count < 25


def test_a_decomposition_before_inductor():
    part = find(Compiler("aot_eager_decomp_partition", "decomposition", 2))
    assert part.lines() == [
        "wrong from: backend aot_eager_decomp_partition, decomposition of aten.b (application 2 of 2)"
    ]


def test_a_lowering_and_an_option():
    part = find(Compiler("inductor", "lowerings", 1, option="max_fusion_size"))
    assert part.lines() == [
        "wrong from: backend inductor, lowering of aten.c",
        "  right without fusion (max_fusion_size=1)",
    ]


def test_no_part():
    assert find(Compiler("inductor")).lines() == ["wrong from: backend inductor: Inductor"]
    assert find(Compiler("aot_eager")).lines()[0].startswith("wrong from: backend aot_eager: AOTAutograd")


def test_a_trial_that_says_nothing_clears_no_part():
    compiler = Compiler("inductor", "lowerings", 1)

    def try_(backend, which, options):
        tried = compiler(backend, which, options)
        return Tried(None) if which and which.part == "lowerings" else tried

    assert find(try_).part == ""


def test_two_applications_together():
    """Right without either of the first two, wrong with both: the later one is named."""

    def try_(backend, which, _options):
        out = which if which and which.part == "post_grad_passes" else LeftOut("", 0, 0)
        kept = [number for number in (0, 1) if not out.start <= number < out.stop]
        return Tried(backend == "inductor" and len(kept) == 2, APPLIED)

    part = find(try_)
    assert (part.name, part.alone) == ("two", True)
