"""Plants changes into Inductor, one or two at a time, and saves the texts that they change.

Each change is an option of Inductor, a replaced function of Inductor, or an edit of the generated text. The script
generates the code of all cases with it, without a GPU, and compares with the stored snapshots of this torch. It writes
`FOLDER/CHANGE.json.gz` for each change: a list of [case, target, stored text, new text]. It needs Triton.
benchmarks/causes.py reads these files.

    python benchmarks/planted_changes.py /tmp/planted                   # everything: two hours on two cores
    python benchmarks/planted_changes.py /tmp/planted --every 4 --changes scalar_tails split_reductions_off
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.case import Case
from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.compiler.compiler import Compiler, GeneratingError, compiler_here
from conformance.devices.environment import PreparationError
from conformance.devices.targets import Target
from conformance.facts import extract
from conformance.normalize.text import canonical_text, snapshot_text
from conformance.storage.locations import snapshot_store
from conformance.storage.snapshots import torch_release

GPU, CPU = "cuda_sm90", "cpu_avx512"


@dataclass(frozen=True)
class Change:
    """`options`: of Inductor. `replaced`: dotted name of a function → what it returns. `edit`: (pattern, replacement)
    for the generated text.
    """

    target: str = GPU
    options: dict[str, Any] = field(default_factory=dict)
    replaced: dict[str, Any] = field(default_factory=dict)
    edit: tuple[str, str | Callable[[re.Match[str]], str]] = ("", "")

    def __or__(self, other: Change) -> Change:
        options, replaced = self.options | other.options, self.replaced | other.replaced
        return Change(self.target, options, replaced, self.edit if self.edit[0] else other.edit)

    def apply_edit(self, text: str) -> str:
        return re.sub(*self.edit, text) if self.edit[0] else text


_INDEX_DTYPE = "torch._inductor.codegen.simd.SIMDScheduling.can_use_32bit_indexing"
#: The changes that docs/measurements.md counts.
CHANGES = {
    "eviction_policy_gone": Change(edit=(r", eviction_policy='\w+'", "")),
    "size_hints_halved": Change(edit=(r"(?<=size_hints=\{'x': )\d+", lambda match: str(int(match[0]) // 2))),
    "64_bit_indexing": Change(replaced={_INDEX_DTYPE: False}),
    "assert_size_stride_gone": Change(options={"size_asserts": False}),
    "no_vector_instruction_set": Change(CPU, {"cpp.simdlen": 1}),
    "scalar_tails": Change(CPU, {"cpp.enable_loop_tail_vec": False}),
    "max_fusion_size_1": Change(options={"max_fusion_size": 1}),
    "pattern_matcher_off": Change(options={"pattern_matcher": False}),
    "persistent_reductions_off": Change(options={"triton.persistent_reductions": False}),
    "online_softmax_off": Change(options={"online_softmax": False}),
    "split_reductions_off": Change(options={"split_reductions": False}),
}
#: Changes that the search for causes was not built for.
OTHER_CHANGES = {
    "block_pointers": Change(options={"triton.use_block_ptr": True}),
    "no_index_asserts": Change(options={"assert_indirect_indexing": False}),
    "serial_loops_on_cpu": Change(CPU, {"cpp.min_chunk_size": 1 << 30}),
    "no_buffer_reuse": Change(options={"allow_buffer_reuse": False}),
    "unaligned_inputs": Change(options={"triton.divisible_by_16": False}),
    "nan_asserts": Change(options={"nan_asserts": True}),
    "no_reuse_in_place": Change(options={"inplace_buffers": False}),
    "precision_casts_emulated": Change(options={"emulate_precision_casts": True}),
    "tilings_of_more_dimensions": Change(options={"triton.prefer_nd_tiling": True}),
    "no_horizontal_fusion_on_cpu": Change(CPU, {"cpp.max_horizontal_fusion_size": 0}),
    "no_unrolled_reductions": Change(options={"unroll_reductions_threshold": 1}),
}
#: Two changes at once, of different size and kind.
PAIRS = (
    ("assert_size_stride_gone", "split_reductions_off"),
    ("assert_size_stride_gone", "persistent_reductions_off"),
    ("64_bit_indexing", "online_softmax_off"),
    ("64_bit_indexing", "pattern_matcher_off"),
    ("max_fusion_size_1", "eviction_policy_gone"),
    ("max_fusion_size_1", "online_softmax_off"),
    ("scalar_tails", "serial_loops_on_cpu"),
    ("no_vector_instruction_set", "no_horizontal_fusion_on_cpu"),
    ("persistent_reductions_off", "pattern_matcher_off"),
    ("no_reuse_in_place", "split_reductions_off"),
)


def all_changes() -> dict[str, Change]:
    """All changes and pairs. The name of a pair is "A+B"."""
    changes = CHANGES | OTHER_CHANGES
    return changes | {f"{first}+{second}": changes[first] | changes[second] for first, second in PAIRS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--changes", nargs="*", default=list(all_changes()), choices=list(all_changes()), metavar="X")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="plant into every Nth case only")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    shards = [(number, arguments.workers * arguments.every) for number in range(arguments.workers)]
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn"), start_worker) as pool:
        for name in arguments.changes:
            start = time.perf_counter()
            results = list(pool.map(changed_texts, [name] * len(shards), shards))
            pairs = [pair for result in results for pair in result[0]]
            with gzip.open(arguments.folder / f"{name}.json.gz", "wt") as file:
                json.dump(pairs, file)
            captured, failed = (sum(result[number] for result in results) for number in (1, 2))
            seconds = time.perf_counter() - start
            print(f"{name:48} {len(pairs):5} of {captured} texts, {failed} errors, {seconds:.0f} s", flush=True)


_WORKER: dict[str, Any] = {}


def start_worker() -> None:
    _WORKER["compiler"] = compiler_here()  # before the cases, which import torch
    _WORKER["cases"] = cases_below([OPS])


def changed_texts(name: str, shard: tuple[int, int]) -> tuple[list[tuple[str, str, str, str]], int, int]:
    """The changed texts of each `shard[1]`th case from number `shard[0]` on, how many were captured, and how many
    could not be compiled.
    """
    import torch

    change, compiler = all_changes()[name], _WORKER["compiler"]
    target = compiler.target(change.target)
    pairs, captured, failed = [], 0, 0
    for case in _WORKER["cases"][shard[0] :: shard[1]]:
        snapshot = snapshot_store(case.file).read(case.id)
        stored = snapshot.text(torch_release(torch.__version__), target.name) if snapshot else None
        if not stored:
            continue
        try:
            new = text_of(compiler, case, target, change)
        except PreparationError:  # the case is not for this target
            continue
        except GeneratingError:
            captured, failed = captured + 1, failed + 1
            continue
        captured += 1
        if new != canonical_text(stored):
            pairs.append((case.id, target.name, stored, new))
    return pairs, captured, failed


def text_of(compiler: Compiler, case: Case, target: Target, change: Change) -> str:
    """The case's text with a change. Raises GeneratingError if it cannot be compiled."""
    changed = dataclasses.replace(case, config={**case.config, **change.options})
    with contextlib.ExitStack() as stack:
        for function, value in change.replaced.items():
            stack.enter_context(mock.patch(function, lambda *_, value=value, **__: value))
        result = stack.enter_context(compiler.generate(changed, target, deviceless=True))
        text = snapshot_text(result.capture, extract(result.capture).lines(), target.device)
    return canonical_text(change.apply_edit(text))


if __name__ == "__main__":
    main()
