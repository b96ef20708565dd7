"""Plants changes into Inductor, one at a time, and counts groups of edits and causes of the changed texts.

Each change is an option of Inductor. The script generates the code of some operators for one target with and without
it. It prints a line for each change: changed texts, groups of edits, causes, the share of the texts that the first
three causes explain, and seconds. It needs Triton, and no GPU:

    python benchmarks/grouping.py                           # some minutes
    python benchmarks/grouping.py --operators softmax,norm --changes "scalar tails"
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.case import Case
from conformance.cases.lookup import OPS, cases_below
from conformance.devices.targets import Target
from conformance.facts import extract
from conformance.harness.generator import GeneratingError, Generator
from conformance.normalize.text import snapshot_text
from conformance.review.causes import ChangedText, find_causes
from conformance.review.groups import group_changes

#: Change → target, and options of Inductor.
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "assert_size_stride no longer written": ("cuda_sm90", {"size_asserts": False}),
    "no vector instruction set": ("cpu_avx512", {"cpp.simdlen": 1}),
    "scalar tails": ("cpu_avx512", {"cpp.enable_loop_tail_vec": False}),
    "max_fusion_size = 1": ("cuda_sm90", {"max_fusion_size": 1}),
    "pattern matcher off": ("cuda_sm90", {"pattern_matcher": False}),
    "persistent reductions off": ("cuda_sm90", {"triton.persistent_reductions": False}),
    "online softmax off": ("cuda_sm90", {"online_softmax": False}),
    "split reductions off": ("cuda_sm90", {"split_reductions": False}),
    "buffers never reused in place": ("cuda_sm90", {"inplace_buffers": False}),
    "precision casts emulated": ("cuda_sm90", {"emulate_precision_casts": True}),
    "tilings of more dimensions": ("cuda_sm90", {"triton.prefer_nd_tiling": True}),
    "no horizontal fusion on the cpu": ("cpu_avx512", {"cpp.max_horizontal_fusion_size": 0}),
    "asserts and persistent reductions off": (
        "cuda_sm90",
        {"size_asserts": False, "triton.persistent_reductions": False},
    ),
    "scalar tails, no reuse in place": ("cpu_avx512", {"cpp.enable_loop_tail_vec": False, "inplace_buffers": False}),
}
OPERATORS = "softmax,norm,reduction,loss,sdpa,pointwise,matmul,sum,flip,cat,optimizer,var,extremes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", default=OPERATORS, help="operators, comma-separated")
    parser.add_argument("--changes", nargs="*", default=list(CHANGES), help=f"of: {', '.join(CHANGES)}")
    arguments = parser.parse_args()
    operators = arguments.operators.split(",")
    print(f"{'change':40} {'texts':>6} {'groups':>7} {'causes':>7} {'first 3':>8} {'s':>6}")
    with contextlib.closing(Generator()) as generator:  # before the cases, which import torch
        cases = [case for case in cases_below([OPS]) if case.operator in operators]
        texts: dict[tuple[str, str], str | None] = {}
        for name in arguments.changes:
            target, options = generator.target(CHANGES[name][0]), CHANGES[name][1]
            changes = []
            for case in cases:
                key = (case.id, target.name)
                if key not in texts:
                    texts[key] = text_of(generator, case, target, {})
                new = text_of(generator, case, target, options)
                if texts[key] and new and new != texts[key]:
                    changes.append(ChangedText(case.id, target.name, texts[key] or "", new))
            print(line(name, changes), flush=True)


def text_of(generator: Generator, case: Case, target: Target, options: dict[str, Any]) -> str | None:
    """The case's text with these options; None if it cannot be compiled."""
    changed = dataclasses.replace(case, config={**case.config, **options})
    try:
        with generator.capture(changed, target, deviceless=True) as result:
            return snapshot_text(result.capture, extract(result.capture).lines(), target.device)
    except GeneratingError:
        return None


def line(name: str, changes: list[ChangedText]) -> str:
    groups = group_changes(changes)
    start = time.perf_counter()
    causes = find_causes(changes)
    seconds = time.perf_counter() - start
    numbers: dict[ChangedText, set[int]] = defaultdict(set)
    for number, cause in enumerate(causes):
        for member in cause.members:
            numbers[member].add(number)
    first = sum(each <= {0, 1, 2} for each in numbers.values()) / max(1, len(numbers))
    return f"{name:40} {len(numbers):6} {len(groups):7} {len(causes):7} {first:8.0%} {seconds:6.1f}"


if __name__ == "__main__":
    main()
