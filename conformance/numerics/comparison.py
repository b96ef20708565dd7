"""One call of a candidate held to eager and to float64: what differs, in words."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from conformance.capture import invoke
from conformance.cases import call_modes
from conformance.cases.inputs import copy_to, seed_of
from conformance.cases.numerics_policy import Policy
from conformance.errors import ConformanceError
from conformance.numerics import messages
from conformance.numerics.float64 import widened
from conformance.numerics.outcome import Arguments, Outcome, call, cotangent
from conformance.numerics.tolerance import NEIGHBOURS, Measured, measure

#: How often the inputs are moved to see how sensitive the result is; only where a tensor disagrees.
MOVES = 4
#: A result that moves by more than this share of it where inputs move by a 1024th as much, jumps: it is not sensitive.
_SMOOTH = 1 / 256


class NumericsError(ConformanceError, AssertionError):
    """A function that does not do what eager does; the message says where, by how much, and how to see it again."""


@dataclass
class Comparison:
    """What was compared: a line (call, name of the tensor, measurement) for each tensor; `notes` are no failures."""

    lines: list[tuple[str, str, Measured]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def worst(self) -> tuple[str, str, Measured] | None:
        """The line whose error is nearest to what it is allowed."""
        return max(self.lines, key=lambda line: line[2].error / (line[2].allowed or 1.0), default=None)

    def told(self) -> list[str]:
        """How many tensors, and the one nearest to its limit; then the notes, a line each."""
        count = f"{len(self.lines)} tensor{'s' * (len(self.lines) != 1)} compared"
        if self.worst is None:
            return [count, *self.notes]
        which, name, measured = self.worst
        nearest = f"; nearest to the limit: {name}, {which}: {measured.error:.3g} ulp of {measured.allowed:.3g} allowed"
        return [count + (", bit for bit" if measured.exact else nearest), *self.notes]


@dataclass
class Holder:
    """One call of a candidate, of eager and of float64 with the same arguments, and what differs.

    `which`: names the call. `salt`: cotangents depend on it. `layout`: whether strides, storage offsets and aliasing
    count. `special`: values are special: what eager raises, compiled must raise; what is exact may be luck.
    """

    eager: Callable[..., Any]
    arguments: Arguments
    device: Any
    policy: Policy
    salt: str
    comparison: Comparison
    which: str
    layout: bool = True
    mode: str = "plain"
    special: bool = False
    cotangents: list[torch.Tensor] | None = None
    used_cotangents: Mapping[str, torch.Tensor] = field(default_factory=dict)
    sensitive: list[dict[str, Any]] | None = None

    def run(self, candidate: Callable[..., Any]) -> list[str]:
        """The disagreements, readable; none is success."""
        if self.policy.raises:
            return self._raises(candidate, self.policy.raises)
        try:
            eager = self._call(self.eager)
        except Exception as error:
            if not self.special:
                raise
            return self._raises(candidate, type(error).__name__)
        try:
            got = self._call(candidate)
        except Exception as error:
            if not self.special or isinstance(error, NotImplementedError):  # nothing that generated code raises
                raise
            return [f"compiled raised {type(error).__name__}: {error}\n  eager         raised nothing"]
        problems = list(messages.of_meta(got, eager, self.layout, self.comparison.notes))
        comparable = [name for name in eager.outputs if messages.comparable(got, eager, name)]
        cotangents = self._cotangents(eager)
        if comparable == list(eager.outputs):
            eager.backward(cotangents)
            got.backward(cotangents)
        reference = self._reference(cotangents)
        problems += self._values("", comparable, got.outputs, eager.outputs, reference and reference.outputs)
        before = self.arguments.named()
        after = [n for n, t in eager.inputs.items() if t.shape == before[n].shape == got.inputs[n].shape]
        # An input that eager leaves alone is compared with what it was, bit for bit: measure() takes that from eager.
        problems += self._values(" after the call", after, got.inputs, eager.inputs, reference and reference.inputs)
        problems += messages.of_gradients(got, eager, self.comparison.notes)
        both = [n for n in eager.gradients if messages.same_kind(got.gradients.get(n), eager.gradients[n])]
        problems += self._values(
            "gradient of ", both, got.gradients, eager.gradients, reference and reference.gradients
        )
        return problems

    def unfit(self) -> str:
        """What eager raises with these arguments, or ""."""
        try:
            self._call(self.eager)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is nothing to compare with
            return f"{type(error).__name__}: {error}"
        return ""

    def _call(self, fn: Callable[..., Any]) -> Outcome:
        with call_modes.enter_mode(self.mode, self.device):
            return call(fn, self.arguments.copy_to(self.device))

    def _values(self, what: str, names: list[str], got: Any, eager: Any, reference: Any) -> Iterator[str]:
        before = self.arguments.named()
        for name in names:
            tensors = [side.get(name) if side else None for side in (got, eager, reference)]
            if not isinstance(tensors[1], torch.Tensor):
                continue
            title = f"{what}{name}" if what.startswith("gradient") else f"{name}{what}"
            got_, eager_, reference_ = (t.detach().cpu() if isinstance(t, torch.Tensor) else None for t in tensors)
            if reference_ is not None and reference_.shape != eager_.shape:
                if eager_.dtype.is_floating_point or eager_.dtype.is_complex:
                    yield f"{title}: in float64 its shape is {tuple(reference_.shape)}, {messages.NO_REFERENCE}"
                    continue
                reference_ = None
            untouched = what == " after the call" and messages.same_values(eager_, before[name].detach().cpu())
            policy = Policy(exact=True) if untouched else self.policy
            exact = not self.special
            measured = measure(got_, eager_, reference_, policy, may_be_exact=exact)
            if measured.off and not measured.exact and reference_ is not None:
                moves = self._sensitivity(what, name, reference_)
                if moves is not None:
                    few = eager_.numel() < NEIGHBOURS and not self.special
                    moves = moves.amax() if few else moves
                    measured = measure(got_, eager_, reference_, policy, moves, may_be_exact=exact)
            self.comparison.lines.append((self.which, title, measured))
            if measured.off:
                yield messages.of_values(title, measured, got_, eager_, reference_, before)

    def _cotangents(self, eager: Outcome) -> dict[str, torch.Tensor]:
        wanted = {name: t for name, t in eager.tensors().items() if t.requires_grad}
        wanted = {name: t for name, t in wanted.items() if t.dtype.is_floating_point or t.dtype.is_complex}
        if self.cotangents is not None:
            return dict(zip(wanted, self.cotangents, strict=True))
        return {name: cotangent(t.shape, t.dtype, seed_of(f"{self.salt}/{name}")) for name, t in wanted.items()}

    def _sensitivity(self, what: str, name: str, reference: torch.Tensor) -> torch.Tensor | None:
        """How far each element of float64's result moves where the inputs move by an ulp: a sum that cancels, a lot.

        Cotangents are inputs of the backward, and move too. Nil where it jumps instead, as functions do where they
        change branch: a jump excuses nothing.
        """
        if self.sensitive is None:
            self.sensitive = [
                [
                    self._wide(_moved(self.arguments, seed, scale), _moved_each(self.used_cotangents, seed, scale))
                    for scale in (1.0, 1 / 1024)
                ]
                for seed in range(MOVES)
            ]
        kind = {"": "outputs", " after the call": "inputs"}.get(what, "gradients")
        largest = torch.zeros(reference.shape, dtype=torch.float64)
        for pair in self.sensitive:
            sides = [getattr(outcome, kind) for outcome in pair]
            far, near = ((side[name].detach() - reference).abs().nan_to_num(0, 0, 0) for side in sides)
            largest = largest.maximum(torch.where(near <= far * _SMOOTH, far, 0.0))
        return largest

    def _wide(self, arguments: Arguments, cotangents: Mapping[str, torch.Tensor]) -> Outcome:
        """Float64's outcome: in the case's mode, but for autocast, which is about being narrow."""
        mode = "plain" if self.mode == "autocast" else self.mode
        with widened():
            with call_modes.enter_mode(mode, "cpu"):
                outcome = call(self.eager, arguments.copy_to("cpu", widen=True))
            outcome.backward(dict(cotangents), widen=True)
        return outcome

    def _reference(self, cotangents: Mapping[str, torch.Tensor]) -> Outcome | None:
        if self.policy.reference == "eager" or self.policy.exact:
            return None
        self.used_cotangents = cotangents
        try:
            return self._wide(self.arguments, cotangents)
        except Exception as error:
            said = f"{self.salt}: eager runs, but its float64 reference raises {type(error).__name__}: {error}"
            if self.special:
                self.comparison.notes.append(said)
                return None
            no_reference = f"{messages.NO_REFERENCE[0].upper()}{messages.NO_REFERENCE[1:]}"
            raise NumericsError(f"{said}\n{no_reference}") from error

    def _raises(self, candidate: Callable[..., Any], wanted: str) -> list[str]:
        """Both must raise it, and before they write to an input."""
        raised = []
        for fn in (self.eager, candidate):
            arguments = self.arguments.copy_to(self.device)
            try:
                with call_modes.enter_mode(self.mode, self.device):
                    fn(*arguments.args, **arguments.kwargs)
            except Exception as error:  # noqa: BLE001 - which one is the question
                raised.append((invoke.is_of(error, wanted), invoke.said(error)))
            else:
                raised.append((False, "nothing"))
            for name, tensor in self.arguments.named().items():
                if not messages.same_values(arguments.named()[name].detach().cpu(), tensor.detach()):
                    raised[-1] = (False, f"{raised[-1][1]}, after it changed {name}")
        said = f"numerics['raises'] is {wanted!r}" if self.policy.raises else f"eager raises {raised[0][1]}"
        return [
            f"{said}, and {who} raised {message}"
            for who, (right, message) in zip(("eager", "compiled"), raised, strict=True)
            if not right
        ]


def _moved(arguments: Arguments, seed: int, scale: float) -> Arguments:
    """Float64 copies whose values are each `scale` ulp of their former dtype up or down, at random."""
    wide = arguments.copy_to("cpu", widen=True)
    generator = torch.Generator().manual_seed(seed)
    for (_, tensor), old in zip(wide.named().items(), arguments.named().values(), strict=True):
        if old.dtype.is_floating_point or old.dtype.is_complex:
            with torch.no_grad(), contextlib.suppress(RuntimeError):  # an expanded tensor cannot be written to
                tensor.copy_(_nudged(tensor.detach(), old.dtype, scale, generator))
    return wide


def _moved_each(tensors: Mapping[str, torch.Tensor], seed: int, scale: float) -> dict[str, torch.Tensor]:
    """The same of tensors by name."""
    generator = torch.Generator().manual_seed(MOVES + seed)
    return {name: _nudged(copy_to(t, "cpu", widen=True), t.dtype, scale, generator) for name, t in tensors.items()}


def _nudged(wide: torch.Tensor, dtype: torch.dtype, scale: float, generator: torch.Generator) -> torch.Tensor:
    noise = torch.randint(2, wide.shape, generator=generator, dtype=torch.float64) * 2 - 1
    return wide * (1 + noise * torch.finfo(dtype).eps * scale)
