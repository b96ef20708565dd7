"""Finds numbers for the numerics policy: measures compiled's error beside eager's, for many tensors on this CPU.

    python benchmarks/tolerance.py --cases conformance/ops/test_mm.py conformance/ops/test_sdpa.py
    python benchmarks/tolerance.py --opinfo --every 10 --dtype bf16

For each result (outputs, gradients, changed inputs) of ordinary calls, and for several floors, it computes the smallest
factor on eager's error with which every element passes. It prints the table of docs/numerics.md: for each dtype and
floor, how many tensors need no factor, and the largest factors. --json FILE keeps the measurements; --merge FILE FILE
prints one table of several such files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.cases.lookup import cases_below
from conformance.cases.tolerance_policy import OMISSIBLE
from conformance.compiler.case_request import CaseRequest, capture
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.errors import first_line
from conformance.numerics import comparison
from conformance.numerics.check import check_numerics
from conformance.numerics.comparison import NumericsError
from conformance.numerics.measurement import bits_equal, eager_error_at_magnitude, ulp_of

FLOORS = (0.5, 1.0, 2.0, 4.0, 8.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", type=Path, default=[], metavar="FILE", help="files of cases")
    parser.add_argument("--opinfo", action="store_true", help="PyTorch's own operator samples")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th case")
    parser.add_argument("--dtype", default="f32", help="the dtype of PyTorch's samples (default: f32)")
    parser.add_argument("--target", default="", help="a cpu target that this machine runs (default: the widest)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements")
    parser.add_argument("--merge", nargs="*", type=Path, default=[], metavar="FILE", help="add measurements of files")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for file in options.merge:
        found += json.loads(file.read_text(encoding="utf-8"))
    from sweep import sweep_cases

    prepare(())
    cases = list(cases_below(options.cases)) if options.cases else []
    if options.opinfo:
        cases += sweep_cases(options.dtype)
    name = options.target or f"cpu_{Machine.detect().isas[0]}"
    for case in itertools.islice(cases, 0, None, options.every):
        found += measure_case(case, name)
        if options.json:
            options.json.write_text(json.dumps(found), encoding="utf-8")
    print("\n".join(table(found)))
    return 0


def measure_case(case: Case, target: str) -> list[dict[str, Any]]:
    """A row for each floating-point result: dtype, and floor → the factor that it needs. [] if it does not compile."""
    rows: list[dict[str, Any]] = []
    original = comparison.measure

    def recording(got, eager, reference, policy, *args, **kwargs):
        if reference is not None and eager.dtype.is_floating_point and not policy.exact and eager.numel() and not args:
            row = {"case": case.id, "dtype": str(eager.dtype).removeprefix("torch.")}
            rows.append(row | required_factors(got, eager, reference))
        return original(got, eager, reference, policy, *args, **kwargs)

    comparison.measure = recording
    numerics = {key: value for key, value in case.numerics.items() if key in ("exact", "reference", "reason")}
    numerics["without"] = dict.fromkeys(OMISSIBLE, "ordinary calls alone")
    try:
        with capture(CaseRequest(replace(case, numerics=numerics), targets()[target], "native")) as captured:
            check_numerics(replace(case, numerics=numerics), captured.compiled, "cpu", target)
    except NumericsError as error:
        print(f"{case.id}: {first_line(error)}", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 - a case that fails is named and left out
        print(f"{case.id}: {type(error).__name__}", file=sys.stderr)
    finally:
        comparison.measure = original
    return rows


def required_factors(got: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> dict[str, Any]:
    """`same`: equal to eager bit for bit. `factors`: floor → the smallest factor with which finite elements pass."""
    if bits_equal(got, eager):
        return {"same": True, "factors": dict.fromkeys(map(str, FLOORS), 0.0)}
    values, eager_values, wide = (t.detach().double().flatten() for t in (got, eager, reference))
    finite = values.isfinite() & eager_values.isfinite() & wide.isfinite()
    values, eager_values, wide = values[finite], eager_values[finite], wide[finite]
    error, eager_error, magnitude = (values - wide).abs(), (eager_values - wide).abs(), wide.abs()
    if not len(values):
        return {"same": False, "factors": dict.fromkeys(map(str, FLOORS), 0.0)}
    ulp, there = ulp_of(magnitude, got.dtype), eager_error_at_magnitude(eager_error, magnitude)
    factors = {}
    for floor in FLOORS:
        over = error - floor * ulp
        ratio = torch.where(over > 0, over / there.clamp(min=1e-300), 0.0)
        factors[str(floor)] = min(float(ratio.max()), 1e6)
    return {"same": False, "factors": factors}


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of a Markdown table with a row for each dtype and floor."""
    yield "| dtype | tensors | eager's bits | floor, ulp | need no factor | 99 % need at most | the most |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for dtype in sorted({row["dtype"] for row in found}):
        rows = [row for row in found if row["dtype"] == dtype]
        same = sum(row["same"] for row in rows)
        for floor in FLOORS:
            factors = sorted(row["factors"][str(floor)] for row in rows)
            none = sum(factor == 0 for factor in factors)
            at99 = factors[min(len(factors) - 1, int(0.99 * len(factors)))]
            head = f"{dtype} | {len(rows)} | {100 * same / len(rows):.0f} %" if floor == FLOORS[0] else " | | "
            yield f"| {head} | {floor:g} | {100 * none / len(rows):.1f} % | {at99:.2f} | {factors[-1]:.3g} |"


if __name__ == "__main__":
    sys.exit(main())
