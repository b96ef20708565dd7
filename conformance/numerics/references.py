"""Compares the references of all operators that a file's cases call with eager.

A file needs one line:

    test_references = references(test_functional, test_aten)

Each case runs in eager with ordinary values, and once with each group of special values. For each operator that it
calls, forward and backward, the test calls the operator's references with the same arguments: Inductor's decomposition,
the core ATen table's, and the function of torch._refs. It compares them with eager and float64, by the policy of
the numerics check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conformance.cases import run_values
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.numerics.operator_recorder import OperatorCall


#: Twice the policy's factor for float32.
_OTHER_ALGORITHM = {"factor": 8, "reason": "a reference may compute by another algorithm, such as a scan in steps"}


class ReferencesError(ConformanceError, AssertionError):
    """References disagree with eager, or `disagree` is wrong."""


def references(*tests: Any, disagree: Mapping[str, str] | None = None) -> Callable[..., None]:
    """A test that compares the references of all operators that the cases of `tests` call with eager.

    `tests`: functions declared by @case; with --quick one case of each. `disagree`: operator
    ("aten.smooth_l1_loss_backward.default") → why a reference of it disagrees with eager. With seed 0 and all cases,
    the test fails if it no longer disagrees. Ranges of torch versions may follow the operator ("… torch<2.13").
    """

    def test_references(conformance_cases: Callable[[Sequence[Case]], Sequence[Case]]) -> None:
        declared = _declared_for_installed_torch(disagree or {})
        chosen = [case for test in tests for case in conformance_cases(test.cases)]
        compares_all = len(chosen) == sum(len(test.cases) for test in tests)
        found = disagreements(chosen)
        problems = [text for op, texts in found.items() if op not in declared for text in texts[:2]]
        problems += [
            f"disagree names {op} ({reason}), but its references agree with eager: remove the entry"
            for op, reason in sorted(declared.items())
            if op not in found and compares_all and not run_values.current().seed
        ]
        if problems:
            raise ReferencesError("\n\n".join(problems))

    return test_references


def _declared_for_installed_torch(disagree: Mapping[str, str]) -> dict[str, str]:
    """The entries of `disagree` that hold for the installed torch, without version ranges."""
    from conformance.cases.selectors import matches_installed_torch

    declared = {}
    for entry, reason in disagree.items():
        op, *ranges = entry.split()
        if wrong := [word for word in ranges if not word.startswith("torch")]:
            raise ReferencesError(
                f"disagree names {entry!r}: only ranges of torch versions such as 'torch<2.13' may follow the "
                f"operator, not {wrong[0]!r}"
            )
        if all(matches_installed_torch(word) for word in ranges):
            declared[op] = reason
    return declared


def disagreements(cases: list[Case]) -> dict[str, list[str]]:
    """Operator → messages: one for each reference, group of values and signature that disagrees with eager."""
    from conformance.cases.tolerance_policy import Policy
    from conformance.numerics.operator_recorder import operator_calls, references_of

    found: dict[str, list[str]] = {}
    compared: set[str] = set()
    for case, group, arguments in _case_calls(cases):
        try:
            calls = operator_calls(case, arguments)
        except (RuntimeError, ValueError, IndexError, TypeError):
            if group == "ordinary" and not Policy.for_case(case, "", "cpu").raises:
                raise
            continue  # a call that eager refuses has no reference
        for call in calls:
            key = f"{group} {call.signature}"
            if key in compared:
                continue
            compared.add(key)
            for name, reference in references_of(call.op):
                if message := _disagreement(_as_candidate(reference, name, call.op), call, group):
                    found.setdefault(str(call.op), []).append(f"{case.id}, {group} values: {message}")
    return found


def _disagreement(candidate: Callable[..., Any], call: OperatorCall, group: str) -> str:
    """The message of a reference that disagrees with eager, or ""."""
    from conformance.numerics.check import NumericsError, assert_agrees_with_eager

    try:
        assert_agrees_with_eager(
            candidate, _eager(call.op), *call.args, **call.kwargs, values=group, numerics=_OTHER_ALGORITHM
        )
    except NotImplementedError:
        return ""  # the reference declines these arguments
    except NumericsError as error:
        return str(error)
    return ""


def _case_calls(cases: list[Case]) -> Iterator[tuple[Case, str, Mapping[str, Any]]]:
    """(case, group of values, arguments) of each call. Skips cases that differ only in how they are compiled."""
    from conformance.cases import special_values
    from conformance.cases.tolerance_policy import Policy

    called = set()
    for case in cases:
        inputs = tuple((name, repr(sorted(choice.items(), key=str))) for name, choice in case.choices.items())
        constants = tuple((name, repr(value)) for name, value in case.arguments.items() if name not in case.choices)
        key = (case.fn, inputs, constants, case.grad, case.mode)
        if key in called:
            continue
        called.add(key)
        policy = Policy.for_case(case, "", "cpu")
        yield case, "ordinary", case.build(0)
        for special in special_values.calls(case, policy.without, policy.branch):
            if special.group != special_values.OUTSIDE:  # a reference need not refuse what eager refuses
                yield case, special.group, special.arguments


def _as_candidate(reference: Callable[..., Any], name: str, op: Any) -> Callable[..., Any]:
    """The reference with a name for messages. Raises NotImplementedError where it returns NotImplemented."""

    def candidate(*args: Any, **kwargs: Any) -> Any:
        result = reference(*args, **kwargs)
        if result is NotImplemented:
            raise NotImplementedError
        return _as_tuple(result)

    candidate.__qualname__ = f"{name} of {op}"
    return candidate


def _eager(op: Any) -> Callable[..., Any]:
    def eager(*args: Any, **kwargs: Any) -> Any:
        return _as_tuple(op(*args, **kwargs))

    eager.__qualname__ = str(op)
    return eager


def _as_tuple(result: Any) -> Any:
    """Several results as a plain tuple: an operator returns a named tuple or a list where its reference does not."""
    return tuple(result) if isinstance(result, (list, tuple)) else result
