"""Numerics: is a compiled function right? Held to eager on the same device, and both to float64 on the cpu.

`check` does it for a case and its compiled function, `hold` for anything uncompiled: a reference, a decomposition.
Compared are values, dtype, shape, strides, storage offset, requires_grad, container types, which outputs and inputs
share storage, changed inputs, gradients; for two calls with other values. How far values may be off: tolerance.py.

A case's `numerics` may say {"exact": True}, {"factor": 8, "reason": "…"}, {"reference": "eager", "reason": "…"} or
{"raises": "IndexError"}; see tolerance.Policy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.overrides import TorchFunctionMode

from conformance import disagreement
from conformance.inputs import seed_of
from conformance.outcome import Arguments, Outcome, call, cotangent
from conformance.tolerance import NEIGHBOURS, Measured, Policy, measure

if TYPE_CHECKING:
    from conformance.case import Case

#: Inputs are built from these seeds, one call of the compiled function each: what was baked in shows at the second.
SEEDS = (0, 1)
#: How often the inputs are moved to see how sensitive the result is; only where a small tensor disagrees.
MOVES = 4


class NumericsError(AssertionError):
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


def check(case: Case, compiled: Callable[..., Any], device: torch.device | str, target: str = "") -> Comparison:
    """Holds `compiled`, the compiled `case.fn`, to eager on `device` and to float64. `target`: for the message.

    Arguments are passed by name. What compiling raises is passed on as it is, also from a backward.
    Raises NumericsError for a disagreement, PolicyError for a malformed `case.numerics`.
    """
    policy = Policy.of(case.numerics, where=case.id)
    comparison = Comparison()
    for seed in SEEDS:
        which = "first call" if seed == SEEDS[0] else "second call, with other values"
        arguments = Arguments(kwargs=case.build(seed))
        names = disagreement.Names(f"{case.id}, {which}", "compiled", disagreement.reproduction(case, target))
        problems = _Comparer(case.fn, arguments, device, policy, f"{case.id}/{seed}", comparison, which).run(compiled)
        if problems:
            raise NumericsError(disagreement.message(names, problems))
    return comparison


def hold(
    candidate: Callable[..., Any],
    eager: Callable[..., Any],
    *inputs: Any,
    grad_outputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
    layout: bool = True,
    device: torch.device | str = "cpu",
    numerics: Mapping[str, Any] | None = None,
    **options: Any,
) -> Comparison:
    """Holds an uncompiled reference or decomposition to an eager function and to float64, with the policy of `check`.

        hold(decomposition(aten.smooth_l1_loss.default), F.smooth_l1_loss, x, y, reduction="sum")

    Both are called with copies of `inputs` and `options`. Gradients are compared for inputs that require them;
    `grad_outputs` instead of random ones. `layout=False` leaves strides, storage offsets and aliasing open.
    Raises NumericsError, PolicyError, and whatever the functions raise.
    """
    title = f"{disagreement.name_of(candidate)} against {disagreement.name_of(eager)}"
    policy = Policy.of(numerics or {}, where=title)
    comparison = Comparison()
    comparer = _Comparer(eager, Arguments(inputs, options), device, policy, title, comparison, "call", layout)
    if grad_outputs is not None:
        comparer.cotangents = [grad_outputs] if isinstance(grad_outputs, torch.Tensor) else list(grad_outputs)
    problems = comparer.run(candidate)
    if problems:
        names = disagreement.Names(title, "candidate", "")
        raise NumericsError(disagreement.message(names, problems))
    return comparison


@dataclass
class _Comparer:
    """One call of a candidate, of eager and of float64 with the same arguments, and what differs."""

    eager: Callable[..., Any]
    arguments: Arguments
    device: Any
    policy: Policy
    salt: str
    comparison: Comparison
    which: str
    layout: bool = True
    cotangents: list[torch.Tensor] | None = None
    used_cotangents: Mapping[str, torch.Tensor] = field(default_factory=dict)
    moved: list[Outcome] | None = None

    def run(self, candidate: Callable[..., Any]) -> list[str]:
        """The disagreements, readable; none is success."""
        if self.policy.raises:
            return self._raises(candidate)
        eager = call(self.eager, self.arguments.placed(self.device))
        got = call(candidate, self.arguments.placed(self.device))
        problems = list(disagreement.of_meta(got, eager, self.layout, self.comparison.notes))
        comparable = [name for name in eager.outputs if disagreement.comparable(got, eager, name)]
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
        problems += disagreement.of_gradients(got, eager, self.comparison.notes)
        both = [n for n in eager.gradients if disagreement.same_kind(got.gradients.get(n), eager.gradients[n])]
        problems += self._values(
            "gradient of ", both, got.gradients, eager.gradients, reference and reference.gradients
        )
        return problems

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
                    yield f"{title}: in float64 its shape is {tuple(reference_.shape)}, {disagreement.NO_REFERENCE}"
                    continue
                reference_ = None
            untouched = what == " after the call" and disagreement.same_values(eager_, before[name].detach().cpu())
            policy = Policy(exact=True) if untouched else self.policy
            measured = measure(got_, eager_, reference_, policy)
            if measured.off and not measured.exact and reference_ is not None and eager_.numel() < NEIGHBOURS:
                measured = measure(got_, eager_, reference_, policy, self._sensitivity(what, name, reference_))
            self.comparison.lines.append((self.which, title, measured))
            if measured.off:
                yield disagreement.of_values(title, measured, got_, eager_, reference_, before)

    def _cotangents(self, eager: Outcome) -> dict[str, torch.Tensor]:
        wanted = {name: t for name, t in eager.tensors().items() if t.requires_grad}
        wanted = {name: t for name, t in wanted.items() if t.dtype.is_floating_point or t.dtype.is_complex}
        if self.cotangents is not None:
            return dict(zip(wanted, self.cotangents, strict=True))
        return {name: cotangent(t.shape, t.dtype, seed_of(f"{self.salt}/{name}")) for name, t in wanted.items()}

    def _sensitivity(self, what: str, name: str, reference: torch.Tensor) -> float:
        """How far float64's result moves where the inputs move by an ulp of theirs: a sum that cancels moves a lot."""
        if self.moved is None:
            self.moved = [self._wide(_moved(self.arguments.placed("cpu"), seed)) for seed in range(MOVES)]
        sides = [m.gradients if what else m.outputs for m in self.moved] if "call" not in what else []
        differences = [(side[name].detach() - reference).abs() for side in sides]
        return max((float(d[d.isfinite()].amax()) for d in differences if d.isfinite().any()), default=0.0)

    def _wide(self, arguments: Arguments) -> Outcome:
        with widened():
            outcome = call(self.eager, arguments.placed("cpu", widen=True))
            outcome.backward(dict(self.used_cotangents), widen=True)
        return outcome

    def _reference(self, cotangents: Mapping[str, torch.Tensor]) -> Outcome | None:
        if self.policy.reference == "eager" or self.policy.exact:
            return None
        self.used_cotangents = cotangents
        try:
            return self._wide(self.arguments)
        except Exception as error:
            raise NumericsError(
                f"{self.salt}: eager runs, but its float64 reference raises {type(error).__name__}: {error}\n"
                f"{disagreement.NO_REFERENCE[0].upper()}{disagreement.NO_REFERENCE[1:]}"
            ) from error

    def _raises(self, candidate: Callable[..., Any]) -> list[str]:
        wanted = self.policy.raises
        raised = []
        for fn in (self.eager, candidate):
            arguments = self.arguments.placed(self.device)
            try:
                fn(*arguments.args, **arguments.kwargs)
            except Exception as error:  # noqa: BLE001 - which one is the question
                names = [kind.__name__ for kind in type(error).__mro__]
                # Dynamo raises its own kinds, from the one that eager raises.
                names += [kind.__name__ for kind in type(error.__cause__ or error).__mro__]
                raised.append((names, f"{type(error).__name__}: {error}"))
            else:
                raised.append(([], "nothing"))
            for name, tensor in self.arguments.named().items():
                if not disagreement.same_values(arguments.named()[name].detach().cpu(), tensor.detach()):
                    raised[-1] = ([], f"{raised[-1][1]}, after it changed {name}")
        return [
            f"numerics['raises'] is {wanted!r}, and {who} raised {message}"
            for who, (names, message) in zip(("eager", "compiled"), raised, strict=True)
            if wanted not in names
        ]


def _moved(arguments: Arguments, seed: int) -> Arguments:
    """Float64 copies whose values are each up to an ulp of their former dtype away, at random."""
    wide = arguments.placed("cpu", widen=True)
    generator = torch.Generator().manual_seed(seed)
    for (_, tensor), old in zip(wide.named().items(), arguments.named().values(), strict=True):
        if old.dtype.is_floating_point or old.dtype.is_complex:
            noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1
            with torch.no_grad():
                tensor.copy_(tensor.detach() * (1 + noise * torch.finfo(old.dtype).eps))
    return wide


class _Widened(TorchFunctionMode):
    """Replaces floating dtypes that a function asks for by float64 and complex128, but for reinterpreting bits."""

    _WIDE: ClassVar = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}
    _WIDE |= {torch.complex64: torch.complex128}
    _NAMED: ClassVar = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self._NAMED:
            return torch.Tensor.double(args[0], **(kwargs or {}))
        if func in (torch.Tensor.view, torch.ops.aten.view.dtype):
            return func(*args, **(kwargs or {}))
        args = tuple(self._wide(arg) for arg in args)
        return func(*args, **{key: self._wide(value) for key, value in (kwargs or {}).items()})

    def _wide(self, value: Any) -> Any:
        return self._WIDE.get(value, value) if isinstance(value, torch.dtype) else value


@contextlib.contextmanager
def widened() -> Iterator[None]:
    """Computes in float64 what is called within: dtypes asked for, constants made, and quotients of integers."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widened():
            yield
    finally:
        torch.set_default_dtype(default)
