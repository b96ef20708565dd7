"""Errors planted into generated kernels and wrappers for cuda and xpu: the emulation finds each, and where."""

import re
from pathlib import Path

import pytest

from conformance import case, tensor
from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

pytestmark = pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed: pip install triton")


ORDER = {"without": {"huge": "a sum in another order overflows elsewhere"}}


def cases():
    """Name → case. Together the cases have a small kernel of each kind."""

    @case(x=tensor(20), y=tensor(20))
    def test_difference(x, y):
        return x - y

    @case(x=tensor(37, dtype="i32"), y=tensor(37, dtype="i32"))
    def test_at_most(x, y):
        return x // 16 <= y // 16

    @case(x=tensor(6, 50), numerics=ORDER)
    def test_sum(x):
        return x.sum(1)

    @case(x=tensor(6, 50, low=-3, high=-1))
    def test_largest(x):
        return x.amax(1)

    @case(x=tensor(3, 5000), config={"looped": {"triton.persistent_reductions": False}}, numerics=ORDER)
    def test_looped(x):
        return x.sum(1)

    @case(x=tensor(40, 24), y=tensor(40, 24))
    def test_two(x, y):
        return x + y, x * y

    @case(a=tensor(20, 20), b=tensor(20, 20))
    def test_product(a, b):
        return a @ b

    @case(x=tensor(16, 700), config={"cooperative": {"triton.force_cooperative_reductions": True}}, numerics=ORDER)
    def test_cooperative(x):
        return x.sum(1)

    @case(x=tensor(6, 300), config={"several": {"triton.multi_kernel": 1}}, numerics=ORDER)
    def test_several(x):
        return x.sum(1)

    functions = (test_difference, test_at_most, test_sum, test_largest, test_looped, test_two, test_product)
    found = {}
    for function in (*functions, test_cooperative, test_several):
        found[function.__name__.removeprefix("test_")] = function.cases[0]
    return found


NAMES = ("difference", "at_most", "sum", "largest", "looped", "two", "product", "cooperative", "several")

MASK = r"xmask = xindex < xnumel"

#: In the message of a numerics failure.
WRONG = "elements are wrong"

#: Error → the case, the pattern in its generated code, the replacement, and a text of the message.
PLANTS = {
    "a load without its mask": (
        "difference", r"(tl\.load\(in_ptr1 \+ \(x0\)), xmask", r"\1",
        "load out of bounds: element 20 of in_ptr1, which has 20 elements",
    ),
    "a store without its mask": (
        "difference", r"(tl\.store\(out_ptr0 .*), xmask\)", r"\1, None)",
        "store out of bounds: element 20 of out_ptr0",
    ),
    "< becomes <= in a mask": (
        "difference", MASK, "xmask = xindex <= xnumel", "out of bounds: element 20 of in_ptr0"
    ),
    "<= becomes <": ("at_most", r"(tmp\d+ = tmp\d+) <= ", r"\1 < ", WRONG),
    "an argument is swapped": ("difference", r"tmp0 - tmp1", "tmp1 - tmp0", WRONG),
    "arguments of a launch are swapped": ("difference", r"\.run\(arg0_1, arg1_1", ".run(arg1_1, arg0_1", WRONG),
    "factors are swapped": ("product", r"\.mm\(arg0_1, arg1_1", ".mm(arg1_1, arg0_1", WRONG),
    "the last element is left out": ("difference", MASK, "xmask = xindex < xnumel - 1", WRONG),
    "the last block of a loop is left out": (
        "looped", r"range\(0, r0_numel, R0_BLOCK\)", "range(0, r0_numel - R0_BLOCK, R0_BLOCK)", WRONG
    ),
    "a stride in a kernel": ("sum", r"50\*x0", "49*x0", WRONG),
    "a stride past the end": ("sum", r"50\*x0", "51*x0", "load out of bounds: element 300 of in_ptr0"),
    "a stride in the wrapper": ("two", r"(buf0 = empty_strided_\w+\(\(40, 24\), )\(24, 1\)", r"\1(1, 40)", "strides"),
    "a store to the other buffer": ("two", r"out_ptr1 \+", "out_ptr0 +", WRONG),
    "a sum that does not start at 0": ("sum", r"(tl\.where\(.*mask.*, tmp\d+), 0\)", r"\1, 1)", WRONG),
    "a maximum that starts at 0": ("largest", r'(tl\.where\(.*mask.*, tmp\d+), float\("-inf"\)\)', r"\1, 0)", WRONG),
    "a loop's sum that starts at 1": ("looped", r"(_tmp\d+ = tl\.full\(\[XBLOCK, R0_BLOCK\]), 0,", r"\1, 1,", WRONG),
    "no barrier": ("cooperative", r"triton_helpers\.x_grid_barrier\(.*\)", "pass", WRONG),
    "a barrier that some do not reach": (
        "cooperative", r"if HAS_RSPLIT:(?=\n +triton_helpers\.x_grid_barrier)", "if rsplit_id > 0:",
        "deadlock: some programs have ended, and others wait for them at a barrier",
    ),
    "semaphores that nobody cleared": (
        "cooperative", r"x_grid_barrier\(sem_ptr", "x_grid_barrier(in_ptr0",
        "the semaphore of a barrier must start at 0 or 0x80000000, not at"
    ),
    "a part of a split is left out": (
        "cooperative", r"rsplit_chunk \* rsplit_id$", "rsplit_chunk * (rsplit_id + 1)", WRONG
    ),
    "one of several kernels": ("several", r"(_tmp\d+ = tl\.full\(\[XBLOCK, R0_BLOCK\]), 0,", r"\1, 1,", WRONG),
    "another of several": ("several", r"(= tl\.where\(r0_mask & xmask, tmp\d+), 0\)", r"\1, 1)", WRONG),
}  # fmt: skip


@pytest.fixture(scope="module", params=["cuda_sm90", "xpu_pvc"])
def emulated(request):
    """A context manager that captures the case of a name: (its emulation, a function that checks its numerics)."""
    prepare()
    import contextlib

    from conformance.capture.emulation.wrapper import Emulation
    from conformance.compiler.case_request import CaseRequest, capture
    from conformance.devices.targets import targets
    from conformance.numerics.check import check_numerics

    target, declared = targets()[request.param], cases()

    @contextlib.contextmanager
    def make(name):
        emulation = Emulation(target)
        with capture(CaseRequest(declared[name], target), emulation) as captured:

            def check():
                check_numerics(declared[name], captured.compiled, target.device, target.name)

            yield emulation, check

    return make


@pytest.mark.parametrize("name", NAMES)
def test_planted_errors_are_found(emulated, name):
    plants = {what: plant[1:] for what, plant in PLANTS.items() if plant[0] == name}
    assert plants
    with emulated(name) as (emulation, check):
        check()  # the unchanged code is right
        for what, (pattern, replacement, message) in plants.items():
            counts = []

            def plant(text, pattern=pattern, replacement=replacement, counts=counts):
                changed, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
                counts.append(count)
                return changed

            emulation.rewrite = plant
            with pytest.raises(AssertionError) as raised:
                check()
            assert sum(counts), f"{what}: the generated code has nothing to replace"
            assert message in str(raised.value), what


def test_every_plant_has_its_case():
    assert {plant[0] for plant in PLANTS.values()} == set(NAMES) == set(cases())
    assert all(each.file == Path(__file__) for each in cases().values())


def test_emulation_leaves_nothing_behind(emulated):
    """Generated code, Triton and PyTorch are the same before and after an emulation."""
    import torch
    from torch._dynamo import device_interface
    from triton.runtime.jit import JITFunction

    from conformance.compiler.case_request import CaseRequest, capture
    from conformance.devices.targets import targets
    from conformance.generated.capture_texts import code_text

    def state():
        with capture(CaseRequest(cases()["two"], targets()["cuda_sm80"])) as captured:
            code = code_text(captured.capture, targets()["cuda_sm80"])
        streams = sorted(name for name in vars(torch._C) if "RawStream" in name)
        return code, streams, JITFunction.__call__, dict(device_interface.device_interfaces)

    before = state()
    with emulated("two") as (_, check):
        check()
    assert state() == before


def test_time_limit_is_the_items(emulated):
    from conformance.capture.emulation.wrapper import TIME_LIMIT

    with emulated("two") as (emulation, check):
        check()
        assert 0 < emulation.seconds_left < TIME_LIMIT
        emulation.seconds_left = 0.0
        with pytest.raises(AssertionError, match="the kernel did not finish within the time limit"):
            check()


def test_too_much_to_interpret(emulated, monkeypatch):
    from conformance.capture.emulation import kernels
    from conformance.capture.emulation.errors import NotEmulatedError

    monkeypatch.setattr(kernels, "MAX_ELEMENTS_PER_LAUNCH", 64)
    with emulated("two") as (_, check), pytest.raises(NotEmulatedError, match="elements; at most 64 are interpreted"):
        check()


def test_a_jiterator_function_is_not_emulated():
    """A capture without the device takes zeros for its results. The numerics check must not compare these."""
    prepare()
    from conformance.capture.emulation.errors import NotEmulatedError
    from conformance.cases.adhoc import AdhocOptions, resolve_case
    from conformance.compiler.case_request import CaseRequest, capture
    from conformance.devices.targets import targets
    from conformance.numerics.check import check_numerics

    target = targets()["cuda_sm90"]
    function = (
        "lambda x: x + torch.cuda.jiterator._create_jit_fn('template <typename T> T f(T x) { return x * x; }')(x)"
    )
    case, _ = resolve_case(function, (target,), AdhocOptions(inputs=("x=40:f32",)))
    captured = capture(CaseRequest(case, target, emulate=True))
    with captured as result, pytest.raises(NotEmulatedError, match="only a GPU runs"):
        check_numerics(case, result.compiled, "cuda", target.name)
