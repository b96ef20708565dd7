"""Compares what this suite says of same bits with what PyTorch's own tests expect, operator by operator.

    python benchmarks/operators_of_pytorch.py                              # batch and run on cuda_sm90, by structure
    python benchmarks/operators_of_pytorch.py --dtypes f32 softmax linear  # fewer dtypes and operators
    python benchmarks/operators_of_pytorch.py --target cpu_avx2 --native --properties eager,values

PyTorch's test/inductor/test_torchinductor_opinfo_properties.py asks of 34 operators, with the reference inputs of their
OpInfo: are the bits the same for fewer rows (batch), in a further process whose autotuning chose other launches (run),
and as eager (eager; values: for all values of 16 bits, and for 65536 of 32 bits)? It does so with Inductor's defaults
and with options for eager's numerics, on CUDA, and it lists what is known to fail. Here is that list, as of August
2026, and the one for the batches of ROCm. The list for Meta's own builds is left out: `bmm` in f32 fails there.

On cuda_sm90 with torch 2.13, of 204 lines each: run agrees for 204, batch for 186; 12 have no sample, and 6 of `bmm`
do not agree: PyTorch expects the same bits of a library, and structure promises none. `linear` is expected to differ
for another reason than bits: the test shortens a vector of 8 for a weight of 8x8, which raises.

Eager is compared by bits where the code runs. On a CPU the expectation is still that for CUDA: a line that does not
agree is then a difference of the devices, not an error.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.bit_variants import BATCH, DIFFER, EAGER, MAY_DIFFER, RUN, SAME, UNDEFINED
from conformance.cases.case import Case
from conformance.compiler import same_bits
from conformance.compiler.compiler import Compiler, GeneratingError, compiler_here
from conformance.devices.targets import Target

VALUES = "values"
UNARY = (
    *("abs", "neg", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin"),
    *("cos", "tan", "tanh", "sigmoid", "nn.functional.relu6"),
)
BINARY = ("sub", "mul", "remainder", "fmod", "maximum", "minimum")
OTHERS = (
    *("nn.functional.gelu", "nn.functional.silu", "nn.functional.leaky_relu", "nn.functional.hardswish"),
    *("nn.functional.layer_norm", "nn.functional.rms_norm", "nn.functional.linear", "bmm", "softmax", "log_softmax"),
)
#: Operators that make one row of others where their argument `dim` is 0.
ALONG_A_DIM = ("softmax", "log_softmax")

#: Mode of the test → options of Inductor.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "numerics": {
        "deterministic": True,
        "fallback_random": True,
        "emulate_precision_casts": True,
        "eager_numerics.division_rounding": True,
        "eager_numerics.disable_ftz": True,
        "eager_numerics.use_pytorch_libdevice": True,
    },
}
_ALL = "f32 f16 bf16"
#: Property and mode → operator → dtypes whose bits are expected to differ on CUDA.
EXPECTED_TO_DIFFER: dict[tuple[str, str], dict[str, str]] = {
    (BATCH, "default"): {"nn.functional.linear": _ALL},
    (BATCH, "numerics"): {"nn.functional.linear": _ALL},
    (EAGER, "default"): {
        "remainder": _ALL,
        "nn.functional.silu": "f32 f16",
        **dict.fromkeys(("reciprocal", "sigmoid", "softmax", "log_softmax"), "f32"),
        **dict.fromkeys(("nn.functional.gelu", "nn.functional.layer_norm"), "f32"),
    },
    (EAGER, "numerics"): {
        **dict.fromkeys(("remainder", "sub"), _ALL),
        **dict.fromkeys(("sigmoid", "softmax", "log_softmax"), "f32"),
        **dict.fromkeys(("nn.functional.gelu", "nn.functional.layer_norm"), "f32"),
    },
    (VALUES, "default"): {
        **dict.fromkeys(("exp2", "expm1", "rsqrt", "tan", "fmod"), "f32 bf16"),
        **dict.fromkeys(("log1p", "reciprocal", "sigmoid", "sin", "tanh"), "f32"),
        "remainder": _ALL,
    },
    (VALUES, "numerics"): {"sigmoid": "f32", "remainder": _ALL},
}
#: The same, of what is expected to differ on GPUs of AMD beside that.
EXPECTED_ON_ROCM: dict[tuple[str, str], dict[str, str]] = {(BATCH, "default"): {"log1p": "f32"}}
#: Short name → torch's. torch must not be imported before the compiler has prepared for it.
_DTYPES = {"f32": "torch.float32", "f16": "torch.float16", "bf16": "torch.bfloat16"}


@dataclass(frozen=True)
class Sample:
    """A call, as text. `function`: a lambda. `inputs`: name → expression of its tensor."""

    function: str
    inputs: tuple[tuple[str, str], ...]

    def case(self, targets: Sequence[str], config: dict[str, Any]) -> Case:
        options = AdhocOptions(
            tuple(f"{name}={text}" for name, text in self.inputs),
            config=tuple(f"{name}={value}" for name, value in config.items()),
        )
        return resolve_case(self.function, targets, options)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="parts of their names; default: all")
    parser.add_argument("--target", default="cuda_sm90", help="the target (default: cuda_sm90)")
    parser.add_argument("--properties", default=f"{BATCH},{RUN}", help=f"of {BATCH}, {RUN}, {EAGER}, {VALUES}")
    parser.add_argument("--dtypes", default=_ALL.replace(" ", ","), help="default: %(default)s")
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=4, help="of each operator at most so many (default: 4)")
    parser.add_argument("--native", action="store_true", help="run it, if this machine has the device")
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    every = [name for name in (*UNARY, *BINARY, *OTHERS) if _is_chosen(name, options.operators)]
    combinations = itertools.product(every, options.properties.split(","), options.modes.split(","))
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()
        target = compiler.target(options.target)
        for operator, kind, mode in combinations:
            if kind == VALUES and operator in OTHERS:
                continue
            for dtype in options.dtypes.split(","):
                found = list(_verdicts(compiler, target, operator, kind, mode, dtype, options))
                theirs = _expected(target, operator, kind, mode, dtype)
                ours, why = _worst(found)
                agrees = "not compared" if ours == UNDEFINED else "agree" if _agree(theirs, ours) else "DISAGREE"
                counts[kind, agrees] += 1
                print(f"{operator:<27}{dtype:<6}{kind:<8}{mode:<10}{theirs:<8}{ours:<13}{agrees}", flush=True)
                if agrees != "agree":
                    print(f"    {why}", flush=True)
    for (kind, agrees), count in sorted(counts.items()):
        print(f"{kind:<8}{agrees:<14}{count}")
    return 0


def _is_chosen(name: str, parts: Sequence[str]) -> bool:
    return not parts or any(part in name for part in parts)


def _expected(target: Target, operator: str, kind: str, mode: str, dtype: str) -> str:
    lists = (EXPECTED_TO_DIFFER, *([EXPECTED_ON_ROCM] if target.platform == "rocm" else []))
    found = " ".join(each.get((kind, mode), {}).get(operator, "") for each in lists)
    return DIFFER if dtype in found.split() else SAME


def _agree(theirs: str, ours: str) -> bool:
    return (theirs == SAME) == (ours == SAME)


def _worst(found: Sequence[tuple[Sample, same_bits.Verdict]]) -> tuple[str, str]:
    """The word for all samples, and the verdict and the function that it is from."""
    for word in (DIFFER, MAY_DIFFER, SAME, UNDEFINED):
        for sample, verdict in found:
            if verdict.word == word:
                inputs = " ".join(f"{name}={text}" for name, text in sample.inputs)
                return word, f"{' '.join(str(verdict).split())} | {sample.function} | {inputs}"
    return UNDEFINED, "PyTorch has no sample for it"


def _verdicts(
    compiler: Compiler, target: Target, operator: str, kind: str, mode: str, dtype: str, options: argparse.Namespace
) -> Iterator[tuple[Sample, same_bits.Verdict]]:
    """Of each sample and of each variant of it, in the mode itself."""
    import torch

    samples = [_of_values(operator, dtype)] if kind == VALUES else _samples(operator, dtype, kind, options.samples)
    for sample in samples:
        case = sample.case(compiler.machine.targets(), MODES[mode])
        asked = EAGER if kind == VALUES else kind
        torch.use_deterministic_algorithms(kind == RUN)  # as the test does
        try:
            found = same_bits.verdicts(compiler, case, target, deviceless=not options.native, kinds=(asked,))
            if asked == EAGER:  # the modes after the first verdict are others than the test's
                yield sample, next(found)
            else:
                yield from ((sample, each) for each in found if not each.mode)
        except GeneratingError as error:
            yield sample, same_bits.Verdict(asked, UNDEFINED, text=f"it does not compile: {str(error)[:150]}")
        finally:
            torch.use_deterministic_algorithms(False)


def _of_values(operator: str, dtype: str) -> Sample:
    if dtype == "f32":
        first = second = "torch.randint(-2**31, 2**31, (65536,)).to(torch.int32).view(torch.float32)"
    else:
        first = f"torch.arange(65536, dtype=torch.int32).to(torch.int16).view({_DTYPES[dtype]})"
        second = f"{first}[torch.randperm(65536)]"
    inputs = {"x": first} | ({} if operator in UNARY else {"y": second})
    return Sample(f"lambda {', '.join(inputs)}: torch.{operator}({', '.join(inputs)})", tuple(inputs.items()))


def _samples(operator: str, dtype: str, kind: str, most: int) -> list[Sample]:
    """Reference inputs of different shapes, strides or constants: the largest, and others evenly by size."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    op = next(each for each in op_db if each.name == operator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(op.reference_inputs("cpu", torch.float32, requires_grad=False))
    calls = [each for each in found if isinstance(each.input, torch.Tensor) and each.input.numel()]
    taken = [each for each in calls if kind != BATCH or _has_rows(operator, each)]
    taken.sort(key=lambda each: -each.input.numel())
    different = list(dict.fromkeys(_as_text(operator, dtype, each) for each in taken))
    step = max(1, -(-len(different) // most))
    return different[::step]


def _has_rows(operator: str, sample: Any) -> bool:
    """Whether the test of batches takes a sample: four rows or more, that are not one row again and again."""
    tensor = sample.input
    if not tensor.dim() or tensor.shape[0] < 4 or not tensor.stride()[0]:
        return False
    dims = [*sample.args, *([sample.kwargs["dim"]] if "dim" in sample.kwargs else [])]
    return operator not in ALONG_A_DIM or dims[-1] % tensor.dim() != 0


def _as_text(operator: str, dtype: str, sample: Any) -> Sample:
    import torch

    inputs: dict[str, str] = {}

    def word(value: Any) -> str:
        if not isinstance(value, torch.Tensor):
            return repr(value)
        name = f"x{len(inputs)}"
        elements = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
        place = f"as_strided({tuple(value.shape)}, {value.stride()})"
        inputs[name] = f"torch.randn({elements}).to({_DTYPES[dtype]}).{place}"
        return name

    words = [word(each) for each in (sample.input, *sample.args)]
    words += [f"{name}={word(each)}" for name, each in sample.kwargs.items()]
    return Sample(f"lambda {', '.join(inputs)}: torch.{operator}({', '.join(words)})", tuple(inputs.items()))


if __name__ == "__main__":
    sys.exit(main())
