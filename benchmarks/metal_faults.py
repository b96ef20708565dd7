"""Plants faults in Inductor's generator of Metal, and says what finds each: the build, the numerics, or the text alone.

    pip install plugins/metal; python benchmarks/metal_faults.py
    python benchmarks/metal_faults.py barrier masks    # those with one of these words

A fault replaces a text in a function of torch/_inductor/codegen/mps.py. Exit status 1 if one is found by nothing, or by
less than the table says. Of 14 faults, 2 are found by the build and 12 by numerics (torch 2.13, half a minute).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance import case, tensor
from conformance.capture.model import Capture
from conformance.cases.case import Case
from conformance.compiler.compiler import Compiler, GeneratingError, checked_numerics, compiler_here
from conformance.devices.targets import Target
from conformance.normalize.wrapper_modules import normalise

TARGET = "mps_m4"


@dataclass(frozen=True)
class Fault:
    """`where`: a function or class and function of mps.py. `by`: what finds it at least."""

    what: str
    where: str
    old: str
    new: str
    program: Callable[..., object]
    by: str = "numerics"


@case(x=tensor(8, 30, low=-9, high=9, dtype="i32"), y=tensor(8, 30, low=2, high=5, dtype="i32"))
def test_division(x, y):
    return x // y, x % y


@case(x=tensor(8, 30), y=tensor(8, 30))
def test_selection(x, y):
    return x.where(x > y, y * 2)


@case(x=tensor(15))
def test_padding(x):
    import torch
    from torch.nn.functional import pad

    places = torch.arange(9, dtype=torch.int32, device=x.device)
    return x + pad(pad(places, (1, 2), value=3), (2, 1), value=5)


@case(x=tensor(4, 3000))
def test_long_sum(x):
    return x.sum(1)


@case(x=tensor(4, 3000))
def test_long_maximum(x):
    return (x - 5).amax(1), x.argmax(1)


@case(x=tensor(64, 300))
def test_any(x):
    return (x > 2.5).any(1)


@case(x=tensor(6, 300), y=tensor(300))
def test_layer_norm(x, y):
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + y)


@case(a=tensor(32), b=tensor(64))
def test_sum_of_differences(a, b):
    return (a[:, None] - b[None, :]).sum()


@case(x=tensor(7, 4), index=tensor(40, low=0, high=6, dtype="i64"), y=tensor(40, 4))
def test_additions(x, index, y):
    return x.index_add(0, index, y)


@case(x=tensor(8, 30, low=-(2**40), high=2**40, dtype="i64"))
def test_wide_integers(x):
    return x * 3 + 1


FAULTS = (
    Fault("a floor division rounds to 0", "MetalOverrides.floordiv", "c10::metal::floor_divide({a}, {b})", "{a} / {b}",
          test_division),
    Fault("a remainder has the dividend's sign", "MetalOverrides.remainder", "c10::metal::remainder({a}, {b})",
          "{a} % {b}", test_division),
    Fault("where takes the wrong branch", "MetalOverrides.where", "{a} ? {b}", "!({a}) ? {b}", test_selection),
    Fault("a masked load gives 0 outside", "MetalOverrides.masked", '({other_str});"', '(0);"', test_padding),
    Fault("names of nested masks repeat", "MetalOverrides.masked", 'name_prefix += "_scoped"',
          'name_prefix = "tmp_scoped_"', test_padding, "build"),
    Fault("a type has no name in Metal", "MetalKernel.dtype_to_str", "DTYPE_TO_METAL[dtype]",
          '"float32" if dtype == torch.float else DTYPE_TO_METAL[dtype]', test_selection, "build"),
    Fault("a long sum begins with 1", "MetalKernel._reduction_nocache", '(0, "+")', '(1, "+")', test_long_sum),
    Fault("a long maximum begins with 0", "MetalKernel._reduction_nocache",
          'limit_val = f"::c10::metal::{op_struct}<{src_metal_type}>::identity()"', 'limit_val = "0"',
          test_long_maximum),
    Fault("a loop runs past the end", "MetalKernel.codegen_iteration_ranges_entry",
          'if ({linear_idx_name} >= {acc_size}) break;', "", test_long_sum),
    Fault("a barrier is missing", "MetalKernel._reduction_nocache",
          '"threadgroup_barrier(metal::mem_flags::mem_threadgroup);"', '""', test_any),
    Fault("variance and weight are swapped", "MetalKernel._reduction_nocache", 'in "xyz"', 'in "xzy"',
          test_layer_norm),
    Fault("a second loop over the same elements", "MetalKernel.codegen_iteration_ranges_entry",
          "if not root_already_processed:", "if True:", test_sum_of_differences),
    Fault("an addition is not atomic", "MetalKernel.store", 'f"{atomic_type}::atomic_add({cast_var}, ', 'f"(void)('
          '{cast_var}, {var}[{self.index_to_str(index)}] = {cast_val}, ', test_additions),
    Fault("64 bits become 32", "MetalOverrides.constant", "return value_to_metal(val)",
          "return value_to_metal(val) if dtype != torch.int64 else f'({val} << 33)'", test_wide_integers),
)  # fmt: skip


@contextlib.contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """Inside, the function has the fault. Raises LookupError if its text is another one in this torch."""
    from torch._inductor.codegen import mps

    *owners, name = fault.where.split(".")
    owner = functools.reduce(getattr, owners, mps)
    found = inspect.getattr_static(owner, name)
    source = textwrap.dedent(inspect.getsource(getattr(found, "__func__", found)))
    if fault.old not in source:
        raise LookupError(f"{fault.what}: {fault.where} has no {fault.old!r}")
    namespace: dict[str, object] = {}
    code = "from __future__ import annotations\n" + source.replace(fault.old, fault.new)
    exec(compile(code, "planted.py", "exec"), vars(mps) | namespace, namespace)  # noqa: S102
    with mock.patch.object(owner, name, namespace[name]):
        yield


def text(capture: Capture) -> str:
    return "\n".join(normalise(module.code, "mps") for module in capture.modules)


def found_by(compiler: Compiler, target: Target, fault: Fault, program: Case) -> tuple[str, str]:
    """What finds the fault, "nothing" included, and what it says."""
    with compiler.generate(program, target) as right:
        before = text(right.capture)
    with planted(fault):
        try:
            with compiler.generate(program, target, run=True) as wrong:
                checked_numerics(compiler, program, wrong, target, native=False)
                return "text" if text(wrong.capture) != before else "nothing", ""
        except GeneratingError as error:
            return "build", next((line for line in str(error).splitlines() if line.startswith(" with ")), str(error))
        except AssertionError as error:  # of the numerics, or of a kernel that runs
            return "numerics", next(iter(str(error).splitlines()[1:2]), str(error))


def main(words: Sequence[str]) -> int:
    missed = 0
    with contextlib.closing(compiler_here()) as compiler:
        target = compiler.target(TARGET)
        faults = [each for each in FAULTS if not words or any(word in each.what for word in words)]
        for fault in faults:
            [program] = fault.program.cases
            by, said = found_by(compiler, target, fault, program)
            missed += by != fault.by
            print(f"{by:9} {fault.what}: {said}"[:150], flush=True)
    print(f"{len(faults) - missed} of {len(faults)} found as the table says")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
