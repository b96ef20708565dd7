"""The suite's own known failures excuse no fault but the problems that they name.

Faults are planted into what cases with a known failure return, in place of compiled code. A fault that an entry names
(its call, tensor and rule, and for values the change) is left out: that is the problem which the entry excuses.
"""

import functools
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree

import conformance
from conformance.cases.lookup import cases_below
from conformance.expectations.known_failures import load
from conformance.numerics.check import NumericsError, check_numerics
from conformance.numerics.problem import Excuse

PACKAGE = Path(conformance.__file__).parent
TARGET = "cpu_avx2"
TORCH = torch.__version__
#: Every so many cases that have an entry for numerics on this torch, and at most SMALL elements of inputs.
EVERY = 4
SMALL = 3000


def changed_tensors(change):
    """A fault: `change` in each tensor of a result."""
    return lambda outputs: _pytree.tree_map_only(torch.Tensor, change, outputs)


def with_nan(y):
    if not (y.is_floating_point() or y.is_complex()) or not y.numel():
        return y
    return torch.cat([y.flatten()[:-1], torch.full_like(y.flatten()[-1:], torch.nan)]).view(y.shape)


def with_other_numbers(y):
    return (
        y + 3
        if y.dtype not in (torch.bool, torch.complex64, torch.complex128)
        else ~y
        if y.dtype == torch.bool
        else y + 3j
    )


def with_another_dtype(y):
    return y.double() if y.dtype == torch.float32 else y.to(torch.complex64)


#: name → the rule that finds it, what it changes in values, and the fault.
FAULTS = {
    "all + 3": ("values", "number → number", changed_tensors(with_other_numbers)),
    "the last element is NaN": ("values", "number → NaN", changed_tensors(with_nan)),
    "another dtype": ("dtype", "", changed_tensors(with_another_dtype)),
    "one more dimension": ("shape", "", changed_tensors(lambda y: y[None])),
    "a tuple": ("structure", "", lambda outputs: (outputs,)),
}


def is_small(a_case):
    return sum(each.numel() for each in a_case.build(0).values() if isinstance(each, torch.Tensor)) <= SMALL


@functools.cache
def cases_with_entries():
    known = load(PACKAGE / "known_failures")
    named = {
        case_id
        for failure in known.failures
        if failure.excuses and failure.applies_to(TORCH, "native", ("",)) and failure.check == "numerics"
        for case_id, _, target in failure.items()
        if target == TARGET
    }
    cases = {each.id: each for each in cases_below([PACKAGE / "ops"]) if each.mode == "plain" and not each.dynamic}
    return known, [cases[case_id] for case_id in sorted(named & set(cases)) if is_small(cases[case_id])][::EVERY]


def names(excuse: Excuse, rule: str, change: str) -> bool:
    """Whether an entry names such a problem of an ordinary call."""
    ordinary = {"first", "second"} & set(excuse.calls)
    return bool(ordinary) and excuse.rule == rule and (not change or change in excuse.changes)


@pytest.mark.long("it tries each fault with each entry of known_failures/")
@pytest.mark.parametrize("fault", FAULTS)
def test_no_entry_excuses_another_fault(fault):
    rule, change, plant = FAULTS[fault]
    known, cases = cases_with_entries()
    excused, planted = [], 0
    for each in cases:
        excuses = [
            excuse
            for failure in known.failures
            if (each.id, "numerics", TARGET) in failure.items() and failure.applies_to(TORCH, "native", ("",))
            for excuse in failure.excuses
        ]
        if any(names(excuse, rule, change) for excuse in excuses):
            continue

        def compiled(each=each, **arguments):
            return plant(each.fn(**arguments))

        try:
            check_numerics(each, compiled, "cpu", TARGET)
        except NumericsError as error:
            problems = error.problems
        else:
            continue  # such as NaN in integers: this fault changes nothing here
        if not any(problem.rule == rule and problem.call == "first" for problem in problems):
            continue
        planted += 1
        if not known.unexcused(each.id, TARGET, TORCH, problems, "native"):
            excused.append(each.id)
    assert planted > 8
    assert not excused
