"""Compares one call of a candidate with eager and with float64, and finds the problems."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from conformance.capture import call_modes
from conformance.cases import other_inputs, special_values
from conformance.cases.outside_tensors import advice
from conformance.cases.seeds import seed_of
from conformance.cases.tolerance_policy import Policy
from conformance.errors import ConformanceError
from conformance.numerics import error_profile, messages
from conformance.numerics.conversions import are_integers, narrow_dtypes, rounded_by_one, share_without_rounding
from conformance.numerics.cotangents import EXPANDED, random_cotangent
from conformance.numerics.decisiveness import Decisiveness
from conformance.numerics.error_profile import ErrorProfiles
from conformance.numerics.exceptions import exception_problems, raised_problem
from conformance.numerics.float64 import computing_in_float64
from conformance.numerics.gradient_layouts import without_layouts_of_eager
from conformance.numerics.measurement import NEIGHBOURS, Measurement, bits_equal, lost_share, measure, ulp_of
from conformance.numerics.outcome import Arguments, Outcome, call, ends_the_check
from conformance.numerics.perturbation import PERTURBATIONS, perturbed_arguments, perturbed_cotangents
from conformance.numerics.problem import ORDINARY_CALLS, Problem
from conformance.numerics.random_draws import NarrowDraws, draws_differ
from conformance.numerics.random_rounding import RUNS, Doubt, RandomRounding, doubt
from conformance.numerics.summation_error import SummationError
from conformance.words import pluralise

#: A perturbation of 1 ulp is repeated at 1/1024 ulp. An element that then still moves by more than this share of its
#: first move jumps between branches: it does not count as sensitive.
_SMOOTH = 1 / 256
#: Far from zero, the inputs move so far: where values cancel, each rounding on the way counts like one of an input.
_ULP_FAR_FROM_ZERO = 2.0
_ROUNDED = (
    "{} of {} integers differ by one, because eager rounds a number before it becomes an integer and compiled does "
    "not; float64 gives compiled's in {}"
)
#: Part of an outcome → title of a tensor of that part, in messages.
_TITLES = {"outputs": "{}", "inputs": "{} after the call", "gradients": "gradient of {}"}


class NumericsError(ConformanceError, AssertionError):
    """A function does not do what eager does. The message says where, by how much, and how to reproduce it.

    `problems`: all that was found, in the order of the calls.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems)


class CandidateError(Exception):
    """The candidate raised where eager does not, with ordinary values. `__cause__` is what it raised."""


@dataclass
class Comparison:
    """What a numerics check compared.

    `measurements`: (title of the call, name of the tensor, measurement) for each tensor. `notes`: differences that are
    no failures, and calls that were skipped. `decisiveness`: of eager's outputs and gradients, see decisiveness.py.
    `cotangent_dimensions`: the most dimensions that a cotangent of an earlier call has. `roundings`: notes about
    results that differ because compiled does not round on the way as eager does.
    `error_profiles`: of the ordinary calls, and of each other call with an error over its limit.
    """

    measurements: list[tuple[str, str, Measurement]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    decisiveness: Decisiveness = field(default_factory=Decisiveness)
    cotangent_dimensions: int = 0
    roundings: list[str] = field(default_factory=list)
    error_profiles: ErrorProfiles = field(default_factory=ErrorProfiles)

    @property
    def nearest_to_limit(self) -> tuple[str, str, Measurement] | None:
        """The entry whose error is the largest share of the allowed error."""
        return max(self.measurements, key=lambda entry: entry[2].error / (entry[2].allowed or 1.0), default=None)

    def summary(self) -> list[str]:
        """One line with the number of tensors and the tensor nearest to its limit, then one line for each note."""
        count = f"{pluralise(len(self.measurements), 'tensor')} compared"
        notes = [*dict.fromkeys(self.roundings), *self.notes]
        if self.nearest_to_limit is None:
            return [count, *notes]
        title, name, measurement = self.nearest_to_limit
        error = f"{measurement.error:.3g} ulp of {measurement.allowed:.3g} allowed"
        nearest = f"; nearest to the limit: {name}, {title}: {error}"
        return [
            count + (", bit for bit" if measurement.exact else nearest),
            *dict.fromkeys(self.roundings),
            *self.notes,
        ]


@dataclass(frozen=True)
class _Tensors:
    """A tensor of compiled, of eager and of float64, on the CPU. `part`, `name`: where an Outcome has it.

    `title`: for messages. `wide`: of float64, if there is one. `reference`: what compiled is compared with; None for
    eager. `policy`: how far it may be from it.
    """

    part: str
    name: str
    title: str
    got: torch.Tensor
    eager: torch.Tensor
    wide: torch.Tensor | None
    reference: torch.Tensor | None
    policy: Policy


@dataclass
class CallComparison:
    """Compares one call of a candidate with eager and with float64, all with the same arguments.

    `name`: of the case, for messages. `comparison`: collects measurements and notes. `title`: of the call, for
    messages. `call`: the call's name, a part of the seed of random cotangents. `layout`: whether strides, storage
    offsets and shared storage must agree. `mode`: the case's call mode. `special`: the arguments contain special
    values, so the candidate must raise what eager raises, and a result of eager that equals float64 in every element
    may be luck.
    `cotangents`: one tensor for each output that requires a gradient, with its shape and dtype; None: random ones.
    `cotangent_layout`: of random cotangents, see cotangents.py. `same_draws`: the candidate draws the random numbers
    that eager draws, so float64 draws them too.
    """

    eager: Callable[..., Any]
    arguments: Arguments
    device: Any
    policy: Policy
    name: str
    comparison: Comparison
    title: str
    layout: bool = True
    mode: str = "plain"
    special: bool = False
    cotangents: list[torch.Tensor] | None = None
    cotangent_layout: str = ""
    call: str = "first"
    same_draws: bool = False
    used_cotangents: Mapping[str, torch.Tensor] = field(default_factory=dict)
    _perturbed_outcomes: list[tuple[Outcome, Outcome]] | None = None

    def problems(self, candidate: Callable[..., Any]) -> list[Problem]:
        """Where `candidate` disagrees with eager.

        Raises CandidateError, and what eager raises with ordinary values, unless that is a refusal which the candidate
        does not share.
        """
        if self.policy.raises:
            return self._exception_problems(candidate, self.policy.raises)
        try:
            eager = self._call(self.eager)
        except Exception as error:
            if self.special:
                return self._exception_problems(candidate, type(error).__name__)
            raised = f"{type(error).__name__}: {error}"
            if not raised.startswith(other_inputs.NO_REFUSAL) and (lost := self.refusal_problems(candidate, raised)):
                return lost
            raise
        try:
            got = self._call(candidate)
        except Exception as error:
            if not self.special or ends_the_check(error) or isinstance(error, NotImplementedError):
                raise CandidateError from error  # generated code raises no NotImplementedError
            return [raised_problem(error)]
        problems = list(messages.output_problems(got, eager, self.layout, self.comparison.notes))
        comparable = [name for name in eager.outputs if messages.is_comparable(got, eager, name)]
        self.comparison.decisiveness.compares |= any(leaf is not None for leaf in eager.outputs.values())
        self.used_cotangents = cotangents = self._cotangents_for(eager)
        if comparable == list(eager.outputs):
            eager.backward(cotangents)
            self.comparison.decisiveness.derives |= any(
                each is not None or not eager.passed[name].numel() for name, each in eager.gradients.items()
            )
            try:
                got.backward(cotangents)
            except Exception as error:
                raise CandidateError from error
        reference = self.reference(cotangents)
        problems += self._value_problems("outputs", comparable, got, eager, reference)
        problems += messages.input_problems(got, eager)
        kept = [n for n, tensor in eager.inputs.items() if messages.same_shape_and_dtype(got.inputs.get(n), tensor)]
        problems += self._value_problems("inputs", kept, got, eager, reference)
        # With another layout of inputs or cotangents, autograd promises none. Special values cannot change a layout.
        layout = self.layout and not (self.cotangent_layout or self.special or other_inputs.is_name(self.call))
        notes = self.comparison.notes
        of_gradients = list(messages.gradient_problems(got, eager, layout, notes))
        problems += without_layouts_of_eager(of_gradients, got, lambda: self._call(self.eager), cotangents, notes)
        both = [
            name
            for name, gradient in eager.gradients.items()
            if messages.same_shape_and_dtype(got.gradients.get(name), gradient)
        ]
        problems += self._value_problems("gradients", both, got, eager, reference)
        return problems

    @cached_property
    def _narrow_dtypes(self) -> list[str]:
        return narrow_dtypes(self.eager, self.arguments, self.mode)

    def eager_error(self) -> str:
        """Type and message of the exception that eager raises with these arguments, or ""."""
        try:
            self._call(self.eager)
        except Exception as error:  # noqa: BLE001 - after any exception there is nothing to compare with
            return f"{type(error).__name__}: {error}"
        return ""

    def refusal_problems(self, candidate: Callable[..., Any], raised: str) -> list[Problem]:
        """The problem that the candidate raises nothing. `raised`: the type and message of eager's exception."""
        try:
            self._call(candidate)
        except Exception:  # noqa: BLE001 - the compiler wraps what an operator raises, or refuses it itself
            return []
        return [Problem("", "raises", f"eager raises {raised}, and compiled raised nothing")]

    def _call(self, fn: Callable[..., Any]) -> Outcome:
        arguments = self.arguments.copy_to(self.device)  # made outside inference mode, as the capture's are
        torch.manual_seed(seed_of(self.call))
        with call_modes.enter_mode(self.mode, self.device):
            return call(fn, arguments)

    def _value_problems(
        self, part: str, names: list[str], got: Outcome, eager: Outcome, wide_outcome: Outcome | None
    ) -> Iterator[Problem]:
        """Measures tensors of one part, a key of _TITLES. Those of one name have the same shape and dtype in both."""
        before = self.arguments.tensors()
        for name in names:
            if not isinstance(getattr(eager, part)[name], torch.Tensor):
                continue
            title = _TITLES[part].format(name)
            got_tensor, eager_tensor = (getattr(side, part)[name].detach().cpu() for side in (got, eager))
            if part != "inputs":
                self.comparison.decisiveness.add(title, eager_tensor)
            wide = getattr(wide_outcome, part).get(name) if wide_outcome is not None else None
            wide = wide.detach().cpu() if isinstance(wide, torch.Tensor) else None
            if wide is not None and wide.shape != eager_tensor.shape:
                if eager_tensor.dtype.is_floating_point or eager_tensor.dtype.is_complex:
                    text = f"{title}: its shape in float64 is {tuple(wide.shape)}: {messages.NO_REFERENCE}"
                    yield Problem(title, "reference", text)
                    continue
                wide = None
            # An input that eager does not change must stay the same bit for bit.
            unchanged = (
                part == "inputs" and name in before and messages.same_values(eager_tensor, before[name].detach())
            )
            self.comparison.decisiveness.compares |= not unchanged
            policy = Policy(exact=True) if unchanged else self.policy.for_tensor(title)
            tensors = _Tensors(part, name, title, got_tensor, eager_tensor, wide, wide, policy)
            if self.same_draws and not self.special and wide is not None and draws_differ(eager_tensor, wide):
                tensors = replace(tensors, policy=replace(policy, reference="eager"), reference=None)
            measurement = self._measured(tensors)
            self.comparison.measurements.append((self.title, title, measurement))
            is_ordinary = self.call in ORDINARY_CALLS
            if measurement.buckets is not None and (is_ordinary or error_profile.is_over_limit(measurement.buckets)):
                call = error_profile.ORDINARY if is_ordinary else self.call
                self.comparison.error_profiles.add(call, title, eager_tensor.dtype, measurement.buckets)
            if measurement.wrong_count:
                yield messages.value_problem(title, measurement, got_tensor, eager_tensor, wide, before)

    def _measured(self, tensors: _Tensors) -> Measurement:
        """Measures a tensor, and notes roundings that are lost and mistakes that would pass."""
        got, eager, wide, policy = tensors.got, tensors.eager, tensors.wide, tensors.policy
        # The sum of equal rows, and special values, may be exact in eager by luck.
        may_be_exact = not self.special and self.cotangent_layout != EXPANDED
        is_ordinary, sensitivity = self.call in ORDINARY_CALLS, None
        options: dict[str, Any] = {"may_be_exact": may_be_exact, "profiled": is_ordinary}
        measurement = measure(got, eager, tensors.reference, policy, **options)
        if measurement.wrong_count and wide is not None and policy.moves_inputs:
            if not measurement.exact:
                sensitivity = self.sensitivity(tensors.part, tensors.name, wide)
                options |= {
                    "profiled": True,
                    "lost": lost_share(eager.dtype) if self.call in special_values.MOVED else math.inf,
                }
                measurement = measure(got, eager, tensors.reference, policy, sensitivity, **options)
            elif are_integers(eager):
                moved = self.sensitivity(tensors.part, tensors.name, wide)
                measurement = self._without_rounded(tensors, measurement, rounded_by_one(got, eager, wide, moved))
        if measurement.wrong_count and not policy.exact:
            measurement = self._without_undecided(tensors, measurement, sensitivity, options)
        if self.call == ORDINARY_CALLS[0] and wide is not None and eager.is_floating_point():
            self._note_lost_rounding(tensors.title, got, eager, wide)
        if is_ordinary and tensors.part != "inputs" and not measurement.wrong_count and not measurement.exact:
            self._add_mistakes(tensors, sensitivity)
        return measurement

    def _without_rounded(self, tensors: _Tensors, measurement: Measurement, rounded: torch.Tensor) -> Measurement:
        """The measurement where integers that a rounding has moved pass. `rounded`: bool, in the tensor's shape."""
        if not (count := int((rounded & measurement.wrong).sum())):
            return measurement
        note = f"{tensors.title}: "
        if not any(each.startswith(note) for each in self.comparison.roundings):  # one call is enough
            are_float64s = tensors.got == tensors.wide
            agree = int((rounded & measurement.wrong & are_float64s).sum())
            self.comparison.roundings.append(note + _ROUNDED.format(count, rounded.numel(), agree))
        return measurement.without(rounded)

    def _without_undecided(
        self, tensors: _Tensors, measurement: Measurement, sensitivity: torch.Tensor | None, options: dict[str, Any]
    ) -> Measurement:
        """The measurement where elements pass that another rounding of eager decides. See random_rounding.py."""
        got, eager = tensors.got, tensors.eager
        found = self.doubt(eager, tensors.part, tensors.name, tensors.wide)
        if not measurement.exact and tensors.policy.moves_inputs:
            moved = found.spread if sensitivity is None else found.spread.maximum(sensitivity)
            measurement = measure(got, eager, tensors.reference, tensors.policy, moved, **options)
            judged = torch.where(found.undecided, eager, got)
            measured = measure(judged, eager, tensors.reference, tensors.policy, moved, **options)
        else:
            measured = measurement.without(found.undecided)
        if count := measurement.wrong_count - measured.wrong_count:
            self.comparison.notes.append(
                f"{self.title}: {tensors.title}: {count} of {measurement.total} elements are not judged: they depend "
                "on a number that the program loses"
            )
        return measured

    def doubt(self, eager: torch.Tensor, part: str, name: str, wide: torch.Tensor | None) -> Doubt:
        """What other roundings change in a tensor of eager, on the CPU. `wide`: in float64."""
        others = [getattr(each, part).get(name) for each in self._rounded_anew]
        return doubt(eager, others, wide if self.special else None)

    @cached_property
    def _rounded_anew(self) -> list[Outcome]:
        """Outcomes of eager with other roundings."""
        outcomes = []
        for run in range(len(RUNS)):
            rounding = RandomRounding(run, loses=self.special)
            with (
                torch.compiler.set_stance("force_eager"),
                contextlib.suppress(Exception),
            ):  # it may refuse a lost number
                outcome = self._call(rounding.within(self.eager))
                with rounding:
                    outcome.backward(self.used_cotangents)
                outcomes.append(outcome)
        return outcomes

    def _note_lost_rounding(self, title: str, got: torch.Tensor, eager: torch.Tensor, wide: torch.Tensor) -> None:
        if bits_equal(got, eager) or not (share := share_without_rounding(got, eager, wide)):
            return
        if dtypes := self._narrow_dtypes:
            where = f"{title}: eager rounds to {' and '.join(dtypes)} on the way and compiled does not"
            differ = f"{share:.0%} of the elements differ by more than 8 ulp"
            self.comparison.roundings.append(f"{where}: {differ}, and float64 is nearer to compiled")

    def _add_mistakes(self, tensors: _Tensors, sensitivity: torch.Tensor | None) -> None:
        """Notes which plain mistakes would pass in the place of compiled's tensor. `sensitivity`: as for `measure`."""
        eager, reference, policy = tensors.eager, tensors.reference, tensors.policy
        if not eager.numel() or eager.layout != torch.strided:
            return
        moved = 0.0 if sensitivity is None else sensitivity
        factor, floor = policy.factor_and_floor(eager.dtype)

        def passes(mistake: torch.Tensor) -> bool:
            return not measure(mistake, eager, reference, policy, moved, may_be_exact=False).wrong_count

        def tolerance(error: float) -> float:
            truth = eager if reference is None else reference
            magnitude = (truth if truth.is_complex() else truth.double()).abs().double().nan_to_num(0, 0, 0).amax()
            unit = max(error, float(torch.as_tensor(moved).amax()))
            return factor * unit + floor * float(ulp_of(magnitude, eager.dtype))

        inputs = self.arguments.tensors()
        self.comparison.decisiveness.add_mistakes(tensors.title, eager, reference, inputs, tolerance, passes)

    def _exception_problems(self, candidate: Callable[..., Any], exception: str) -> list[Problem]:
        sides = {"eager": self.eager, "compiled": candidate}
        declared = bool(self.policy.raises)
        return exception_problems(sides, self.arguments, self.device, self.mode, exception, declared=declared)

    def _cotangents_for(self, eager: Outcome) -> dict[str, torch.Tensor]:
        """The cotangent of each floating output that requires a gradient, with the output's shape and dtype."""
        outputs = {name: t for name, t in eager.output_tensors().items() if t.requires_grad}
        outputs = {name: t for name, t in outputs.items() if t.dtype.is_floating_point or t.dtype.is_complex}
        if self.cotangents is not None:
            return dict(zip(outputs, self.cotangents, strict=True))
        dimensions = [tensor.dim() for tensor in outputs.values()]
        self.comparison.cotangent_dimensions = max(self.comparison.cotangent_dimensions, *dimensions, 0)
        return {
            name: random_cotangent(
                t.shape,
                t.dtype,
                seed_of(self.call, name, tuple(t.shape), t.dtype),
                self.cotangent_layout,
            )
            for name, t in outputs.items()
        }

    def sensitivity(self, part: str, name: str, reference: torch.Tensor) -> torch.Tensor:
        """How far each element of the float64 result moves when the inputs move by 1 ulp, and sums by their rounding.

        With autocast, an ulp of float32 is one of the dtype that autocast casts to: it rounds each factor of a product.

        A sum whose terms cancel moves far. The cotangents are inputs of the backward, so they move too. The answer is 0
        for an element that jumps, as elements do where a function changes branch: a jump must not excuse an error.
        In a tensor of fewer than NEIGHBOURS elements, all have the largest answer. With special values, the answer is
        at least eager's error in ordinary calls at that magnitude.
        `reference`: float64 or complex128. Returns float64 of the same shape.
        """
        scale = _ULP_FAR_FROM_ZERO if self.call == special_values.FAR else 1.0
        if self._perturbed_outcomes is None:
            self._perturbed_outcomes = [
                (self._perturbed_outcome(seed, scale), self._perturbed_outcome(seed, scale / 1024))
                for seed in range(PERTURBATIONS)
            ]
        largest = torch.zeros(reference.shape, dtype=torch.float64)
        for pair in self._perturbed_outcomes:
            tensors = [getattr(outcome, part).get(name) for outcome in pair]
            if all(tensor is not None for tensor in tensors):  # without Dynamo, `map` may return a tuple of rows
                far, near = ((tensor.detach() - reference).abs().nan_to_num(0, 0, 0) for tensor in tensors)
                largest = largest.maximum(torch.where(near <= far * _SMOOTH, far, 0.0))
        if self.special:  # an ordinary call shows eager's errors on more elements
            return largest.maximum(self.comparison.error_profiles.eager_error(_TITLES[part].format(name), reference))
        return largest.amax().expand_as(largest) if 0 < largest.numel() < NEIGHBOURS else largest

    def _perturbed_outcome(self, seed: int, scale: float) -> Outcome:
        narrow = torch.get_autocast_dtype(torch.device(self.device).type) if self.mode == "autocast" else None
        cotangents = perturbed_cotangents(self.used_cotangents, seed, scale, narrow)
        arguments = perturbed_arguments(self.arguments, seed, scale, narrow)
        moved = SummationError(seed, scale, self._epsilon_of_sums())
        with torch.compiler.set_stance("force_eager"):  # flex_attention compiles itself, and Dynamo refuses the mode
            return self._float64_outcome(arguments, cotangents, moved)

    @property
    def _narrow_dtype(self) -> torch.dtype:
        """The dtype in which eager draws: that of the first floating input."""
        dtypes = [tensor.dtype for tensor in self.arguments.tensors().values()]
        return next((dtype for dtype in dtypes if dtype.is_floating_point), torch.get_default_dtype())

    def _epsilon_of_sums(self) -> float:
        """The machine epsilon of the dtype in which sums are computed: float64 if an input has it, else float32."""
        wide = any(tensor.dtype in (torch.float64, torch.complex128) for tensor in self.arguments.tensors().values())
        return torch.finfo(torch.float64 if wide else torch.float32).eps

    def _float64_outcome(
        self,
        arguments: Arguments,
        cotangents: Mapping[str, torch.Tensor],
        moved: contextlib.AbstractContextManager[Any] | None = None,
    ) -> Outcome:
        """The outcome in float64, in the case's mode. Leaves autocast out, which asks for a narrower dtype.

        `moved`: a mode inside of which forward and backward run.
        """
        mode = "plain" if self.mode == "autocast" else self.mode
        draws = NarrowDraws(self._narrow_dtype) if self.same_draws else contextlib.nullcontext()
        torch.manual_seed(seed_of(self.call))
        with computing_in_float64(), moved or contextlib.nullcontext(), draws:
            with call_modes.enter_mode(mode, "cpu"):
                outcome = call(self.eager, arguments.copy_to("cpu", widen=True))
            outcome.backward(dict(cotangents), widen=True)
        return outcome

    def reference(self, cotangents: Mapping[str, torch.Tensor]) -> Outcome | None:
        """The outcome in float64; None where the policy asks for none. Raises NumericsError if eager raises there."""
        if self.policy.reference == "eager" or self.policy.exact:
            return None
        self.used_cotangents = cotangents
        try:
            return self._float64_outcome(self.arguments, cotangents)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            message = f"{self.name}, {self.title}: eager runs, but its float64 reference raises {raised}"
            if self.special:
                self.comparison.notes.append(message)
                return None
            said = advice(self.eager, self.arguments.kwargs, error)
            problems = [Problem(self.title, "reference", message)] if said else []
            raise NumericsError(f"{message}\n{said or messages.NO_REFERENCE}", problems) from error
