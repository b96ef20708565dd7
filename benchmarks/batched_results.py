"""Compares, bit for bit, the results of kernels that are compiled in batches with those of kernels compiled alone.

    python benchmarks/batched_results.py                             # every 10th case, all CPU targets that run here
    python benchmarks/batched_results.py --every 1 --target cpu_avx2 # all cases: 40 minutes on one core
    python benchmarks/batched_results.py --every 16 --first 3        # the third of 16 parts, for 16 processes

Each case is called once with its second set of inputs, and its gradients are computed. The last line counts the cases
with the same results, with other results, and those that cannot be captured ahead or that raise. Exit status 1 if
results differ.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.capture import call_modes
from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.cases.selectors import exclusion
from conformance.containers import copy_to
from conformance.devices.machine import Machine
from conformance.devices.targets import Target

#: Cases in one batch, as in a run.
BATCH = 24


def results(case: Case, function: Callable[..., Any]) -> list[Any]:
    """Copies of the tensors that a call returns, and of the gradients of their sum."""
    import torch
    from torch.utils._pytree import tree_flatten

    torch.manual_seed(0)
    arguments = copy_to(case.build(1), torch.device("cpu"))
    with call_modes.enter_mode(case.mode, "cpu"):
        returned = function(**arguments)
    tensors = [each for each in tree_flatten(returned)[0] if isinstance(each, torch.Tensor)]
    roots = [each for each in tensors if each.requires_grad]
    inputs = [arguments[name] for name in case.grad]
    if roots and inputs:
        total = sum(each.abs().sum() if each.is_complex() else each.sum() for each in roots)
        tensors += [each for each in torch.autograd.grad(total, inputs, allow_unused=True) if each is not None]
    return [each.detach().clone() for each in tensors]


def is_same(one: Any, other: Any) -> bool:
    """Whether two tensors have the same dtype, shape and bytes."""
    import torch

    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.layout != torch.strided or one.is_quantized:
        return torch.equal(one.to_dense(), other.to_dense())
    as_bytes = [each.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8) for each in (one, other)]
    return torch.equal(*as_bytes)


def compare(cases: Sequence[Case], target: Target) -> Counter[str]:
    """Compares the cases of one batch, and prints the ids of those that differ."""
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    from conformance.capture.toolchain.kernel_batch import KernelBatch
    from conformance.compiler.ahead import capture_ahead
    from conformance.compiler.case_request import CaseRequest, capture

    batch, waiting, counts = KernelBatch(), [], Counter[str]()
    for case in cases:
        with contextlib.suppress(Exception):  # a run captures such a case alone
            ahead = capture_ahead(case, target)
            ahead.collect_kernels(batch)
            waiting.append((case, ahead))
    counts["left out"] = len(cases) - len(waiting)
    batch.compile()
    batched: list[list[Any] | None] = []
    for case, ahead in waiting:
        batched.append(None)
        with contextlib.suppress(Exception), ahead.resumed() as captured:  # a known failure raises
            captured.build()
            batched[-1] = results(case, captured.compiled)  # type: ignore[arg-type]
    for path in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.batch"):
        path.unlink()
    CppPythonBindingsCodeCache.cache_clear()
    for (case, _), there in zip(waiting, batched, strict=True):
        if there is None:
            counts["left out"] += 1
            continue
        with capture(CaseRequest(case, target, "native")) as captured:
            alone = results(case, captured.compiled)  # type: ignore[arg-type]
        same = len(alone) == len(there) and all(map(is_same, alone, there))
        counts["same" if same else "other"] += 1
        if not same:
            print("differs:", case.id, flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=10, metavar="N", help="every N-th case")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first case of them (default 0)")
    parser.add_argument("--target", help="one target; all CPU targets that run here by default")
    options = parser.parse_args()
    machine, differs = Machine.detect(), False
    prepare()
    rows = [each for each in machine.targets().values() if each.device == "cpu" and machine.is_native(each)]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        for target in rows:
            if options.target in (None, target.name):
                cases = [
                    case for case in cases_below([OPS])[options.first :: options.every] if not exclusion(case, target)
                ]
                counts = Counter[str]()
                for start in range(0, len(cases), BATCH):
                    counts += compare(cases[start : start + BATCH], target)
                differs |= bool(counts["other"])
                print(f"{target.name}: {counts['same']} same, {counts['other']} other, {counts['left out']} left out")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
