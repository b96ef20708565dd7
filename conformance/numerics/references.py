"""References: the decompositions and Python references of all operators that a file's cases call, held to eager.

    test_references = references(test_functional, test_aten)

is all that a file needs. Each case runs once in eager with ordinary values and once with each group of special values;
each operator that it calls, forward and backward, is held with the same arguments to its references: Inductor's
decomposition, the core ATen table's, torch._refs. All of them to float64, by the policy of numerics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.numerics.operator_recorder import Called


class ReferencesError(ConformanceError, AssertionError):
    """References that do not do what eager does."""


def references(*tests: Callable[..., Any], disagree: Mapping[str, str] | None = None) -> Callable[[], None]:
    """A test that holds the references of all operators that the cases of `tests` call.

    `disagree`: operator ("aten.smooth_l1_loss_backward.default") → why a reference of it disagrees with eager. That it
    no longer does is a failure too. The operator may be followed by a range of torch versions ("… torch<2.13").
    """

    def test_references() -> None:
        known = _known(disagree or {})
        found = disagreements([case for test in tests for case in test.cases])
        idle = sorted(set(known) - set(found))
        told = [text for op, texts in found.items() if op not in known for text in texts[:2]]
        told += [f"{op} is said to disagree ({known[op]}), and does not: take it out" for op in idle]
        if told:
            raise ReferencesError("\n\n".join(told))

    return test_references


def _known(disagree: Mapping[str, str]) -> dict[str, str]:
    """What is said of the torch at hand."""
    from conformance.cases.selectors import matches_installed_torch

    known = {}
    for said, why in disagree.items():
        op, *words = said.split()
        if wrong := [word for word in words if not word.startswith("torch")]:
            raise ReferencesError(
                f"disagree names {said!r}; after the operator come ranges of torch versions such as 'torch<2.13', "
                f"not {wrong[0]!r}"
            )
        if all(matches_installed_torch(word) for word in words):
            known[op] = why
    return known


def disagreements(cases: list[Case]) -> dict[str, list[str]]:
    """Operator → messages, one for each reference, group of values and signature that disagrees."""
    from conformance.cases.numerics_policy import Policy
    from conformance.numerics.operator_recorder import called, references_of

    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for case, group, arguments in _calls(cases):
        try:
            calls = called(case, arguments)
        except (RuntimeError, ValueError, IndexError, TypeError):
            if group == "ordinary" and not Policy.for_case(case, "", "cpu").raises:
                raise
            continue  # what eager refuses has no reference
        for each in calls:
            key = f"{group} {each.signature}"
            if key in seen:
                continue
            seen.add(key)
            for name, reference in references_of(each.op):
                if told := _held(_asked(reference, name, each.op), each, group):
                    found.setdefault(str(each.op), []).append(f"{case.id}, {group} values: {told}")
    return found


def _held(reference: Callable[..., Any], each: Called, group: str) -> str:
    """What hold() says of one reference, or ""."""
    from conformance.numerics.check import NumericsError, hold

    try:
        hold(reference, _eager(each.op), *each.args, **each.kwargs, values=group)
    except NotImplementedError:
        return ""  # it says itself that it does not take these arguments
    except NumericsError as error:
        return str(error)
    return ""


def _calls(cases: list[Case]) -> Iterator[tuple[Case, str, Mapping[str, Any]]]:
    """Each case's calls; none for a case that differs from another only in how it is compiled."""
    from conformance.cases import special_values
    from conformance.cases.numerics_policy import Policy

    seen = set()
    for case in cases:
        inputs = tuple((name, repr(sorted(choice.items(), key=str))) for name, choice in case.choices.items())
        constants = tuple((name, repr(value)) for name, value in case.arguments.items() if name not in case.choices)
        key = (case.fn, inputs, constants, case.grad, case.mode)
        if key in seen:
            continue
        seen.add(key)
        policy = Policy.for_case(case, "", "cpu")
        yield case, "ordinary", case.build(0)
        for each in special_values.calls(case, policy.without, policy.branch):
            yield case, each.group, each.arguments


def _asked(reference: Callable[..., Any], name: str, op: Any) -> Callable[..., Any]:
    def asked(*args: Any, **kwargs: Any) -> Any:
        result = reference(*args, **kwargs)
        if result is NotImplemented:
            raise NotImplementedError
        return _plain(result)

    asked.__qualname__ = f"{name} of {op}"
    return asked


def _eager(op: Any) -> Callable[..., Any]:
    def eager(*args: Any, **kwargs: Any) -> Any:
        return _plain(op(*args, **kwargs))

    eager.__qualname__ = str(op)
    return eager


def _plain(result: Any) -> Any:
    """Several results as a tuple: operators answer named ones, or a list, where a reference's are neither."""
    return tuple(result) if isinstance(result, (list, tuple)) else result
