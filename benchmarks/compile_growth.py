"""Prints how the work of a compile grows with repetitions: for patterns of graphs, and for cases such as models.

    python benchmarks/compile_growth.py                      # the patterns: deep, wide, views, pieces, writes, …
    python benchmarks/compile_growth.py llama/ gpt2/         # the cases that match

A line for each: the exponents of all calls and of memory, and each phase above 1.1. See docs/memory-and-work.md.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case, CaseError
from conformance.cases.lookup import selected_cases
from conformance.compiler.compile_growth import LIMIT, growth
from conformance.compiler.compiler import Compiler, compiler_here
from conformance.compiler.gpu_free_worker import GpuFreeWorkerError
from conformance.errors import first_line

_PACKAGE = Path(__file__).resolve().parent.parent / "conformance"
_CASES = (_PACKAGE / "ops", _PACKAGE / "models")

#: Name → function of x, 32x32.
PATTERNS = {
    "deep, one kernel": "lambda x: x.sin() + 1",
    "deep, a product each": "lambda x: (x @ x).relu()",
    "deep, a reduction each": "lambda x: x.softmax(-1)",
    "wide, a reduction each": "lambda x: x.sum(-1)",
    "wide, an element each": "lambda x: x[0, 0] * 2",
    "views": "lambda x: x.view(16, 64).view(32, 32).t().contiguous() + 1",
    "pieces put together": "lambda x: torch.cat([x[:, 8:], x[:, :8]], 1)",
    "rows put together": "lambda x: torch.stack(x.unbind(0)[::-1])",
    "writes to a part": "lambda x: torch.select_scatter(x, x[0] * 0.5, 0, 1)",
    "two uses of each": "lambda x: x.sin() + x.cos()",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="parts of case ids; default: the patterns of graphs")
    parser.add_argument("--target", default="cuda_sm90")
    parser.add_argument("--most", type=int, default=32, help="the most repetitions: a power of two, at least 8")
    arguments = parser.parse_args()
    repetitions = [arguments.most // 4, arguments.most // 2, arguments.most]
    with contextlib.closing(compiler_here()) as compiler:
        target = compiler.target(arguments.target)
        for name, case in _chosen(compiler, arguments.patterns):
            try:
                powers = growth(compiler.capture, case, target, repetitions).exponents()
            except (CaseError, GpuFreeWorkerError) as error:
                print(f"{name}: {first_line(error)}", flush=True)
                continue
            parts = [f"{part} {powers[part]:.2f}" for part in ("all", "memory") if part in powers]
            parts += [f"{phase} {power:.2f}" for phase, power in powers.items() if power > LIMIT and phase != "all"]
            print(f"{name}: {', '.join(dict.fromkeys(parts))}", flush=True)
    return 0


def _chosen(compiler: Compiler, patterns: list[str]) -> Iterator[tuple[str, Case]]:
    if patterns:
        yield from ((case.id, case) for case in selected_cases(_CASES, patterns).cases)
        return
    for name, function in PATTERNS.items():
        options = AdhocOptions(("x=32x32",), (), False, ())
        case, _ = resolve_case(function, compiler.machine.targets(), options)
        yield name, case


if __name__ == "__main__":
    sys.exit(main())
