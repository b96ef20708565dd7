"""The tolerance rule that scripts `reproduce.py` bring along gives the same verdicts as the suite's own."""

from __future__ import annotations

import collections
import random

import pytest
import torch

from conformance.cases.tolerance_policy import Policy
from conformance.harness.reproduction.standalone import tolerance as standalone
from conformance.numerics.limits import limit
from conformance.numerics.measurement import measure, ulp_of

FLOATING = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
)
INTEGERS = (torch.bool, torch.uint8, torch.int16, torch.int64)
POLICIES = (
    Policy(),
    Policy(),
    Policy(exact=True),
    Policy(factor=0.0),
    Policy(factor=0.5),
    Policy(factor=100.0, reason="measured 100 ulp"),
    Policy(reference="eager", reason="it has no float64"),
)
#: Around NEIGHBOURS_EXACT and NEIGHBOURS.
SHAPES = ((), (0,), (1,), (5,), (15,), (16,), (3, 21), (64,), (65,), (4, 50))
DRAWS = 300


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_the_verdicts_on_floating_tensors(dtype):
    verdicts = collections.Counter()
    for seed in range(DRAWS):
        draw = _Draw(seed, dtype)
        sensitivity = draw.sensitivity()
        may_be_exact = draw.chance(0.8)
        arguments = (draw.eager, draw.reference, draw.policy, sensitivity)
        expected = measure(draw.got, *arguments, may_be_exact=may_be_exact).wrong
        limits = limit(*arguments, may_be_exact=may_be_exact)
        wrong, rule = standalone.wrong_elements(draw.got, draw.eager, limits)
        assert torch.equal(wrong, expected), f"seed {seed}: {rule}"
        verdicts["some" if 0 < int(wrong.sum()) < wrong.numel() else "all" if wrong.any() else "none"] += 1
        verdicts["exact" if "must" in rule else "allowed error"] += bool(wrong.any())
    assert min(verdicts[each] for each in ("some", "none", "exact", "allowed error")) >= DRAWS / 30, verdicts


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_verdicts_on_integers(dtype):
    generator = torch.Generator().manual_seed(0)
    for changed in (0, 1, 7):
        eager = torch.randint(0, 2, (7, 3), generator=generator).to(dtype)
        got = eager.clone()
        got.view(-1)[:changed] = (1 - got.view(-1)[:changed].long()).to(dtype)
        limits = limit(eager, None, Policy(), 0.0, may_be_exact=True)
        wrong, _ = standalone.wrong_elements(got, eager, limits)
        assert int(wrong.sum()) == changed
        assert torch.equal(wrong, measure(got, eager, None, Policy()).wrong)


class _Draw:
    """One comparison: `got`, `eager`, `reference`, near the limit of `policy` in some elements."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self.policy = self._random.choice(POLICIES)
        self.shape = self._random.choice(SHAPES)
        self._complex = dtype.is_complex
        self._real = dtype.to_real() if dtype.is_complex else dtype
        self._flat = (*self.shape, 2) if dtype.is_complex else self.shape
        reference, eager, got = self._values()
        self.reference = None if self.policy.reference == "eager" or self.policy.exact else self._made(reference)
        self.eager, self.got = (self._made(each.to(self._real)) for each in (eager, got))

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def sensitivity(self) -> torch.Tensor | float:
        """0, or the same as a few ulp of each element."""
        if self.chance(0.6) or self.reference is None:
            return 0.0
        return self.reference.abs().nan_to_num(0, 0, 0) * torch.finfo(self._real).eps * self._random.choice([1, 8, 100])

    def _made(self, real: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex(real.contiguous()) if self._complex else real

    def _values(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Float64: the reference, eager's values and compiled's, which are rounded to the dtype later."""
        scale = 2.0 ** self._random.choice([0, 0, 3, -5])
        reference = torch.randn(self._flat, generator=self._generator, dtype=torch.float64) * scale
        if self.chance(0.15):
            reference = reference.round()
        if self.chance(0.4):  # eager is exact, as where data only moves
            reference = self._rounded(reference)
        eager = reference + self._ulps(reference, self._random.choice([0, 0, 1, 3]), 1.0)
        factor, floor = self.policy.factor_and_floor(self._real)
        steps = self._random.choice([0.0, 1.0, floor, floor + 1.0, factor, factor + floor, 2 * (factor + floor)])
        start = self._rounded(eager) if self.chance(0.7) else reference
        got = start + self._ulps(reference, steps, self._random.choice([0.02, 0.3, 1.0]))
        for special in self._random.sample(self._specials(), k=self._random.choice([0, 0, 1, 3])):
            self._set(special, (reference, eager, got))
        if self.chance(0.3):
            self._set_near_the_largest((reference, eager, got))
        return reference, eager, got

    def _ulps(self, at: torch.Tensor, count: float, share: float) -> torch.Tensor:
        """`count` ulp, up or down, in a share of the elements; 0 in the others."""
        up_or_down = torch.randint(0, 2, at.shape, generator=self._generator) * 2 - 1
        chosen = torch.rand(at.shape, generator=self._generator) < share
        return torch.where(chosen, up_or_down * count * ulp_of(at.abs(), self._real), 0.0)

    def _rounded(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self._real).double()

    def _specials(self) -> list[float]:
        info = torch.finfo(self._real)
        beyond = info.max * 2.0 if self._real != torch.float64 else float("inf")
        finite = [0.0, -0.0, info.max, -info.max, info.max * (1 - 7 * info.eps), info.smallest_normal / 2, beyond]
        return [float("nan"), float("inf"), -float("inf"), *finite]

    def _set(self, special: float, tensors: tuple[torch.Tensor, ...]) -> None:
        """Sets an element of all tensors, or of some, which may be wrong then."""
        if not tensors[0].numel():
            return
        index = self._random.randrange(tensors[0].numel())
        for tensor in tensors if self.chance(0.5) else self._random.sample(tensors, k=self._random.choice([1, 2])):
            tensor.view(-1)[index] = special

    def _set_near_the_largest(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """Sets an element to a number near the dtype's largest, which a result may or may not exceed."""
        if not tensors[0].numel():
            return
        info = torch.finfo(self._real)
        index = self._random.randrange(tensors[0].numel())
        finite = info.max * (1 - self._random.choice([6.5, 7.5, 8.5, 9.5]) * info.eps)
        infinite = [float("inf"), -float("inf"), float("nan")]
        choices = ([finite], [finite, *infinite], infinite)
        for tensor, values in zip(tensors, choices, strict=True):
            tensor.view(-1)[index] = self._random.choice(values)
