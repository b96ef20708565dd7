"""Opt-outs of a case: which hold on a target, who declares them, and what each of them excuses."""

from __future__ import annotations

import torch

from conformance.capture.observers.dynamo import Compiles
from conformance.cases.case import case
from conformance.cases.inputs import tensor
from conformance.cases.opt_outs import opt_outs
from conformance.numerics.audit import Audit, Judgement, check_and_audit, judge
from conformance.numerics.check import Observed

NUMERICS = {
    "without": {"nan": "one", "huge": "two"},
    "factor": 16,
    "reason": "measured 9 times",
    "for": {
        "gpu": {"without": {"inf": "on a device, three"}},
        "cuda f32": {"factor": 2, "recompiles": 1, "reason": "four"},
    },
}


def case_of(fn, numerics):
    fn.__name__ = "test_function"
    return case(x=tensor(20, dtype=["f32"]), numerics=numerics)(fn).cases[0]


def test_which_opt_outs_hold_and_who_declares_them():
    declared = case_of(lambda x: x, NUMERICS)
    assert [each.declaration for each in opt_outs(declared, "cpu_avx2", "cpu")] == [
        'numerics["without"]["nan"]',
        'numerics["without"]["huge"]',
        'numerics["factor"]',
    ]
    found = opt_outs(declared, "cuda_sm90", "cuda")  # a factor of 2 is no wider than the policy
    assert [(each.declaration, each.reason, each.needs_device) for each in found] == [
        ('numerics["for"]["gpu"]["without"]["inf"]', "on a device, three", True),
        ('numerics["for"]["cuda f32"]["recompiles"]', "four", False),
    ]


def test_ties_concern_the_signs_of_zeros_in_edges():
    def eager(x):
        return torch.where(x == 0, torch.ones_like(x).copysign(x), x)

    audit = Audit()
    declared = case_of(eager, {"without": {"ties": "the sign of 0 is lost"}})
    check_and_audit(audit, declared, lambda x: torch.where(x == 0, 1.0, x), "cpu", "cpu_avx2")
    assert [problem.call for problem in audit.judgements[0].problems] == ["edges"]


def test_opt_outs_that_excuse_the_same_are_judged_together():
    """Compiled is wrong only where both inputs are large: without either opt-out, one of them is not."""

    def compiled(x, y):
        return torch.where((x.abs() > 1e30) & (y.abs() > 1e30), 0.0, x.sign() * y.sign())

    def product_of_signs(x, y):
        return x.sign() * y.sign()

    product_of_signs.__name__ = "test_product_of_signs"
    numerics = {"without": {"huge": "one", "y": "two", "inf": "three"}}
    declared = case(x=tensor(2), y=tensor(2), numerics=numerics)(product_of_signs).cases[0]
    audit = Audit()
    check_and_audit(audit, declared, compiled, "cpu", "cpu_avx2")
    found = {each.opt_out.name: {problem.call for problem in each.problems} for each in audit.judgements}
    assert found == {"huge": {"huge"}, "y": set(), "inf": {"inf"}}


def test_recompiles():
    declared = case_of(lambda x: x * 2, {"recompiles": 1, "reason": "a guard"})
    again = Compiles(1, {"test_it": 1}, {"test_it\tx.size()[0] == 2": 1})
    observed = Observed(recompiled={"second": Compiles(0), "nan": again}, made_all_calls=True)
    (judged,) = judge(declared, declared.fn, "cpu", "cpu_avx2", observed)
    assert [(problem.call, problem.rule) for problem in judged.problems] == [("nan", "recompiles")]
    assert judged.problems[0].text.endswith("reason        x.size()[0] == 2")
    assert Judgement.from_json(judged.to_json()) == judged


def test_a_check_that_ended_early_judges_nothing():
    declared = case_of(lambda x: x * 2, {"without": {"nan": "a reason"}})
    (judged,) = judge(declared, declared.fn, "cpu", "cpu_avx2", Observed())
    assert judged.not_judged == "the check of the case itself ended early"
