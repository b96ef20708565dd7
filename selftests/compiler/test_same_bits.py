"""Same bits: natively the bits decide, and without the device the order in which kernels add up; with the reason."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch
from suites import NATIVE, run_python
from torch._inductor import config

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.bit_variants import (
    BATCH,
    CONFIGURATION,
    DIFFER,
    EAGER,
    LAYOUT,
    MAY_DIFFER,
    PROPERTIES,
    RUN,
    SAME,
    UNDEFINED,
)
from conformance.cases.lookup import selected_cases
from conformance.compiler import same_bits
from conformance.compiler.compiler import compiler_here
from conformance.devices.environment import torch_build, triton_version
from conformance.facts.reduction_order import difference
from conformance.numerics.bits import bit_difference, digest

CASES = """
from conformance import case, tensor

@case(x=tensor(8, 300), require={"all": {"same_bits": ["run", "batch"]}})
def test_sine(x):
    return x.sin() * 2

@case(x=tensor(8, 100000), require={"gpu": {"same_bits": ["batch"]}})
def test_sum(x):
    return x.sum(-1)
"""

#: How Triton divides 16 elements of one row.
ONE_ROW = "16: 1 x 32 x 2" if triton_version().startswith("3.6.") else "16: 1 x 1 x 1"


@pytest.fixture
def compiler():
    with contextlib.closing(compiler_here()) as made:
        made.set_up_torch()
        yield made


@pytest.fixture
def verdicts(compiler):
    def made(function, target, **inputs):
        words = tuple(f"{name}={value}" for name, value in inputs.items())
        case, _ = resolve_case(function, compiler.machine.targets(), AdhocOptions(words, (), False, ()))
        return list(same_bits.verdicts(compiler, case, compiler.target(target), deviceless=False))

    return made


def of(found, kind):
    return [each for each in found if each.kind == kind]


def test_pointwise_code_has_the_same_bits_by_structure(verdicts):
    found = verdicts("lambda x: x.sin() + 1", "cuda_sm90", x="8x30")
    assert {each.word for each in found if each.kind != EAGER} == {SAME}
    assert {each.evidence for each in found if each.kind != EAGER} == {"structure"}
    assert [each.word for each in of(found, EAGER)] == [MAY_DIFFER]
    assert of(found, EAGER)[0].reason == "kernel 1 has its own way to compute sin"


@pytest.mark.parametrize(
    ("function", "inputs", "kind", "reason"),
    [
        (
            "lambda x: x.softmax(-1)",
            {"x": "8x3000"},
            RUN,
            "kernel 1 takes the fastest of 2 launches: XBLOCK=1 R0_BLOCK=",
        ),
        ("lambda x, i: x.index_add(0, i, x)", {"x": "64x8", "i": "torch.arange(64) % 3"}, RUN, "kernel 2 adds atomic"),
        (
            "lambda x, i: x.index_add(0, i, x)",
            {"x": "torch.ones(64, 8).bfloat16()", "i": "torch.arange(64) % 3"},
            RUN,
            "call 1 adds atomically",
        ),
        (
            "lambda x: x.sum(-1)",
            {"x": "8x100000"},
            BATCH,
            f" ({ONE_ROW}) or XBLOCK=8 num_warps=2 num_stages=1 (16: 1 x 16 x 1) → ",
        ),
        ("lambda x: x @ x.t()", {"x": "64x64"}, LAYOUT, "a library chooses its own kernel: mm"),
        (
            "lambda x, y: (x + y).sum()",
            dict.fromkeys("xy", "torch.ones(204)"),
            LAYOUT,
            " (256: 4 x 32 x 2) → ",
        ),
        ("lambda x: x.sum(-1)", {"x": "8x500"}, CONFIGURATION, "kernel 1: persistent reduction [500]"),
        ("lambda x: x.sum()", {"x": "torch.randn(300000)"}, CONFIGURATION, "2 kernels and calls → 1; kernel 1: "),
    ],
)
def test_what_may_differ_on_a_gpu_has_its_reason(verdicts, function, inputs, kind, reason):
    found = of(verdicts(function, "cuda_sm90", **inputs), kind)
    assert any(each.word == MAY_DIFFER and reason in each.reason for each in found), "\n".join(map(str, found))


@pytest.mark.skipif("batch_invariant" not in config.get_config_copy(), reason="this torch has no batch_invariant")
def test_the_mode_for_batches_keeps_the_structure(verdicts):
    found = of(verdicts("lambda x: x.sum(-1)", "cuda_sm90", x="8x100000"), BATCH)
    half = {each.mode: each.word for each in found if each.name == "4 of 8 rows"}
    assert half == {"": MAY_DIFFER, "batch_invariant=True": SAME}


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("lambda x: x - x.mean(0)", "a row of output depends on other rows"),
        ("lambda x: x.sum(0)", "output has not the rows of the input"),
        ("lambda x: x[:6].reshape(-1, 6)", "output has not the rows of the input"),
    ],
)
def test_batches_that_are_not_defined(verdicts, function, says):
    (only,) = of(verdicts(function, "cuda_sm90", x="8x30"), BATCH)
    assert (only.word, only.text) == (UNDEFINED, says)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        ("lambda x, w: torch.nn.functional.linear(x, w).relu()", {"x": "8x8", "w": "8x8"}),
        ("lambda x, w: torch.nn.functional.layer_norm(x, (5,), w)", {"x": "5x5", "w": "torch.ones(5)"}),
        ("lambda w, i: torch.nn.functional.embedding(i, w)", {"w": "20x6", "i": "torch.arange(8)"}),
    ],
)
def test_a_weight_is_no_batch(verdicts, function, inputs):
    """Also where it has as many rows as the batch, or comes first."""
    assert all("of" in each.name for each in of(verdicts(function, "cuda_sm90", **inputs), BATCH))


@pytest.mark.parametrize(
    ("function", "inputs", "is_exact"),
    [
        ("lambda x, y: torch.where(x > y, x * 2, y) / 3", {"x": "8x30", "y": "8x30"}, True),
        ("lambda x: (x * 2 // 3).amax(-1)", {"x": "torch.arange(64).view(8, 8)"}, True),
        ("lambda x: x.sin()", {"x": "8x30"}, False),
        ("lambda x: x.to(torch.int64)", {"x": "8x30"}, False),  # lanes and scalars differ beyond the range
    ],
)
def test_exact_cpp_has_the_same_bits_with_lanes_and_without(compiler, monkeypatch, function, inputs, is_exact):
    """Then the check of an item compiles no variant; `show` runs them all and agrees."""
    compiled = []
    side = same_bits._Comparison.side
    monkeypatch.setattr(
        same_bits._Comparison, "side", lambda *args, **options: compiled.append(args) or side(*args, **options)
    )
    words = tuple(f"{name}={value}" for name, value in inputs.items())
    case, _ = resolve_case(function, compiler.machine.targets(), AdhocOptions(words, (), False, ()))
    target = compiler.target(NATIVE)
    with compiler.generate(case, target, deviceless=False, run=True) as result:
        found = list(same_bits.verdicts_on(compiler, case, target, result, [BATCH], deviceless=False, native=True))
    assert bool(compiled) != is_exact
    if is_exact:
        assert {each.word for each in found} == {SAME}
        found = list(same_bits.verdicts(compiler, case, target, deviceless=False, kinds=[BATCH]))
        assert {(each.word, each.evidence) for each in found} == {(SAME, "native")}


@pytest.mark.parametrize("target", ["cuda_sm90", NATIVE])
def test_the_gradient_of_a_weight_is_no_part_of_a_batch(compiler, target):
    """It is a sum over all rows. Those of the rows are compared: the reason is of a kernel that computes them."""
    (case,) = selected_cases([], ["norm/layer_norm-plain-f32-backward-static"]).cases
    found = list(same_bits.verdicts(compiler, case, compiler.target(target), deviceless=False, kinds=[BATCH]))
    own = {each.name: each for each in found if not each.mode}
    if target == NATIVE and torch_build().release < (2, 12):  # a single row is not computed in another way
        assert own["1 of 8 rows"].word == SAME, own
    else:
        assert own["1 of 8 rows"].reason.startswith("kernel 1 forward: "), own
    assert all(each.text.endswith("without the gradients of weight, bias") for each in own.values()), own


@pytest.mark.parametrize(
    ("function", "inputs", "word"),
    [
        ("lambda x: x.amax(-1)", {"x": "8x500"}, SAME),
        ("lambda x: x.sum(-1)", {"x": "torch.arange(4000).view(8, 500)"}, SAME),
        ("lambda x: x.sum(-1)", {"x": "8x65"}, MAY_DIFFER),
    ],
)
def test_the_order_of_a_maximum_and_of_whole_numbers_does_not_matter(verdicts, function, inputs, word):
    assert of(verdicts(function, "cuda_sm90", **inputs), RUN)[0].word == word


@pytest.mark.parametrize(
    ("inputs", "name"), [("1x1025", "one element further in memory"), ("8x1025", "with gaps between rows")]
)
def test_the_layout_of_a_reduction_follows_from_alignment(verdicts, inputs, name):
    """The widths of the accesses are the same: rows of odd length are loaded under a mask."""
    (found,) = [each for each in verdicts("lambda x: x.sum(-1)", "cuda_sm90", x=inputs) if each.name == name]
    assert (found.word, "2048: 4 x 32 x 16" in found.reason) == (MAY_DIFFER, True)


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        ("lambda x: x + 1", "8x30", ""),
        ("lambda x: x.flip(0)", "8x30", ""),
        ("lambda x: x.clamp(0).flip(0)", "8x30", "may choose the other of 0.0 and -0.0: clamp, clamp_min"),
        ("lambda x: x.round(decimals=2)", "8x30", "has its own way to compute round"),
        ("lambda x: x * 3 + 1", "8x30", "may contract mul and add to one fma"),
        (
            "lambda x: x.double().float() + 1",
            "8x30",
            "removed conversions, and eager rounds at each: joint_graph.pointless_convert",
        ),
        ("lambda x: x.exp()", "8x30", "has its own way to compute exp"),
        ("lambda x: x * 3 + 1", "torch.randn(8, 30).bfloat16()", "rounds to 16 bits only after all of mul, add"),
        ("lambda x: x.sum(-1)", "8x30", "adds up in its own order: sum"),
        ("lambda x: x.argmax(-1)", "8x30", "may choose another of equal elements: argmax"),
        ("lambda x: torch.nn.functional.dropout(x)", "8x30", "draws its own random numbers"),
    ],
)
def test_why_bits_may_differ_from_eager(verdicts, function, x, reason):
    (found,) = of(verdicts(function, "cuda_sm90", x=x), EAGER)
    assert (found.word, found.reason.partition(" ")[2].partition(" ")[2]) == (MAY_DIFFER if reason else SAME, reason)


@pytest.mark.skipif(not NATIVE, reason="this machine runs no CPU target")
def test_bits_are_compared_natively(verdicts):
    found = verdicts("lambda x: (x.exp() * 0.1).softmax(-1)", NATIVE, x="8x300")
    assert {each.evidence for each in found} == {"native"}
    assert [each.word for each in of(found, RUN)] == [SAME]
    assert [each.word for each in of(found, BATCH)] == [SAME, SAME]
    default, *modes = of(found, EAGER)
    assert default.word == DIFFER
    assert " elements of output differ, by at most " in default.text
    assert any("emulate_precision_casts=True" in each.mode for each in modes)


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([float("nan"), 2.0], [float("nan"), 2.0], ""),
        ([0.0, 2.0], [-0.0, 2.0], "1 of 2 elements of output differ, in the sign of zero"),
        ([1.0, 2.0], [1.0 + 2**-23, 2.0], "1 of 2 elements of output differ, by at most 1 ulp"),
        ([-1.0, 2.0], [-1.0, float("inf")], "1 of 2 elements of output differ"),
        ([1.0], [1.0, 2.0], "output is missing, or has another shape or dtype"),
    ],
)
def test_differences(one, other, says):
    assert bit_difference({"output": torch.tensor(one)}, {"output": torch.tensor(other)}) == says


@pytest.mark.parametrize("name", ["bool", "uint8", "uint16", "float8_e4m3fn", "bfloat16", "complex64"])
def test_each_dtype_has_bits(name):
    values = torch.tensor([[0.0, 1.0]]).to(getattr(torch, name))
    assert bit_difference({"output": values}, {"output": values.clone()}) == ""
    assert "1 of 2 elements" in bit_difference({"output": values}, {"output": torch.ones(1, 2).to(values.dtype)})


def test_both_parts_of_a_complex_number_count():
    one, other = (torch.complex(torch.ones(1), torch.tensor([zero])) for zero in (0.0, -0.0))
    assert bit_difference({"output": one}, {"output": other}) == "1 of 1 elements of output differ"


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (["1: sum; A"], ["1: sum; A"], ""),
        (["1: sum; A", "2: exp"], ["1: sum; B", "2: exp"], "kernel 1: A → B"),
        (["1: sum; A", "2: exp"], ["1: sum; A"], "2 kernels and calls → 1; kernel 2: exp → nothing"),
        (["1: sum; A"], ["1: sum; A", "2: exp"], "1 kernels and calls → 2; kernel 2: nothing → exp"),
    ],
)
def test_the_first_kernel_that_differs(one, other, says):
    assert difference(one, other) == says


def test_a_verdict_is_a_line_and_a_reason():
    verdict = same_bits.Verdict(BATCH, DIFFER, "native", "1 of 8 rows", "3 of 5 elements of output differ", "why")
    assert str(verdict).split("\n") == [
        "batch         differ (native): 1 of 8 rows, 3 of 5 elements of output differ",
        "              why",
    ]
    assert "why" not in str(dataclasses.replace(verdict, reason=""))


def test_a_case_that_requires_bits(tmp_path):
    (tmp_path / "test_mine.py").write_text(CASES)
    ran = run_python(
        "-m", "pytest", "test_mine.py", "--target", "cuda_sm90", "--checks", "requirements", folder=tmp_path
    )
    assert "2 items = 1 passed + 1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "same_bits: wanted batch, got batch may differ (structure): 1 of 8 rows kernel 2: " in ran.stdout


def test_the_check_of_a_run_and_of_its_baseline(tmp_path):
    """It passes with a verdict on each property, and fails where the baseline run has a property that is lost."""
    source = "from conformance import case, tensor\n\n@case(x=tensor(8, 65))\ndef test_it(x):\n    return {}\n"
    options = ("-m", "pytest", "test_mine.py", "--target", "cuda_sm90", "--checks", "same_bits")
    (tmp_path / "test_mine.py").write_text(source.format("x + 1"))
    ran = run_python(*options, "--save-run", "before", folder=tmp_path)
    assert "same bits: run 1 of 1, batch 1 of 1, layout 1 of 1, configuration 1 of 1, eager 1 of 1\n" in ran.stdout
    (tmp_path / "test_mine.py").write_text(source.format("x.sum(-1)"))
    ran = run_python(*options, "--baseline", "before", folder=tmp_path)
    assert "run           may differ (structure): in another process" in ran.stdout, ran.stdout + ran.stderr
    assert "the run before: same" in ran.stdout
    record = json.loads(next(tmp_path.glob(".conformance/runs/before/items/**/*.json")).read_text())
    assert {kind: each["word"] for kind, each in record["same_bits"].items()} == dict.fromkeys(PROPERTIES, SAME)


@pytest.mark.parametrize("target", ["cuda_sm90", NATIVE])
def test_an_addition_of_a_multiple_may_be_an_fma(verdicts, target):
    """ATen's vectorised add with alpha is one fma on the CPU; Inductor's C++ is not."""
    (found,) = of(verdicts("lambda x, y: torch.add(x, y, alpha=0.3)", target, x="8x30", y="8x30"), EAGER)[:1]
    assert "adds a multiple" in found.reason


def test_singular_values_are_computed_with_their_vectors(verdicts):
    """Tracing asks ATen for the vectors too, which eager leaves out."""
    (found,) = of(verdicts("lambda a: torch.linalg.svdvals(a + 1)", NATIVE, a="2x6x6"), EAGER)[:1]
    assert found.word == SAME or "may compute vectors too" in found.reason


def test_wrong_values_that_are_known_are_a_reason(tmp_path):
    """No rule about rounding explains them, and the entry of numerics does."""
    options = ("--pyargs", "conformance.ops.test_mutation", "-k", "test_shift", "--target", NATIVE)
    ran = run_python("-m", "pytest", *options, "--checks", "same_bits", "--save-run", "it", folder=tmp_path)
    assert "1 item = 1 passed" in ran.stdout, ran.stdout + ran.stderr
    record = json.loads(next(tmp_path.glob(".conformance/runs/it/items/**/*.json")).read_text())
    assert record["same_bits"][EAGER]["reason"].startswith("its values are wrong, a known failure: ")


@pytest.mark.parametrize(
    ("words", "word", "name"),
    [
        ([SAME, DIFFER, MAY_DIFFER], DIFFER, "1"),
        ([SAME, MAY_DIFFER, UNDEFINED], MAY_DIFFER, "1"),
        ([UNDEFINED, SAME], SAME, ""),
        ([UNDEFINED], UNDEFINED, "0"),
    ],
)
def test_the_worst_of_several_variants(words, word, name):
    found = [same_bits.Verdict(BATCH, each, "structure", f"{number}") for number, each in enumerate(words)]
    other = same_bits.Verdict(BATCH, DIFFER, "native", "with a mode", mode="batch_invariant=True")
    assert (same_bits.worst([*found, other]).word, same_bits.worst(found).name) == (word, name)


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        ("lambda x: (x.flip(0).exp() * 2, x.exp().sum(1))[0]", "8x30", ""),
        ("lambda x: [y := x * 3.3, y + 1]", "8x30", "mul and add"),
        ("lambda x: [y := x * 3.3, y + 1]", "torch.randn(8, 30).bfloat16()", "16-bit results"),
        # torch 2.11 writes one kernel for all of it, with any options
        pytest.param(
            "lambda x: torch.cat([x * 3.3, x]) + 1",
            "torch.randn(8, 30).bfloat16()",
            "16-bit results" if torch_build().release >= (2, 12) else "",
            id="cat",
        ),
    ],
)
def test_elementwise_code_without_fusion(verdicts, function, x, reason):
    found = of(verdicts(function, "cuda_sm90", x=x), CONFIGURATION)
    assert [each.reason[: len("mul and add")] for each in found if each.reason] == ([reason[:11]] if reason else [])


@pytest.mark.skipif(not NATIVE, reason="this machine runs no CPU target")
def test_another_process_has_the_same_bits(tmp_path):
    source = "from conformance import case, tensor\n\n@case(x=tensor(8, 65))\ndef test_it(x):\n    return x.exp()\n"
    options = ("-m", "pytest", "test_mine.py", "--target", NATIVE, "--checks", "same_bits")
    (tmp_path / "test_mine.py").write_text(source)
    assert run_python(*options, "--save-run", "before", folder=tmp_path).returncode == 0
    assert run_python(*options, "--baseline", "before", folder=tmp_path).returncode == 0
    file = next(tmp_path.glob(".conformance/runs/before/items/**/*.json"))
    record = json.loads(file.read_text())
    record["same_bits"]["run"]["bits"] = "0" * 16
    file.write_text(json.dumps(record))
    ran = run_python(*options, "--baseline", "before", folder=tmp_path)
    assert "the same code has other bits than in the run before, in another process" in ran.stdout, ran.stdout


@pytest.mark.parametrize("view", [torch.Tensor.conj, lambda x: x.conj().imag])
def test_a_view_has_the_bits_of_its_values(view):
    x = torch.randn(4, dtype=torch.complex64)
    assert bit_difference({"x": view(x)}, {"x": view(x).clone()}) == ""
    assert digest({"x": view(x)}) == digest({"x": view(x).clone()}) != digest({"x": view(x) + 1})


def test_one_element_has_bits_whatever_its_strides():
    x = torch.randn(1, 1).as_strided((1, 1), (8, 46))
    assert bit_difference({"x": x}, {"x": x + 1}).startswith("1 of 1 elements")
    assert bit_difference({"x": torch.zeros(2)}, {"x": -torch.zeros(2)}).endswith("differ, in the sign of zero")


def test_the_digest_of_bits():
    nan = torch.tensor([float("nan"), 1.0])
    assert digest({"x": nan}) == digest({"x": -nan * torch.tensor([1.0, -1.0])})
    assert len({digest({"x": each}) for each in (nan, torch.zeros(2), -torch.zeros(2), torch.zeros(2, 1))}) == 4


def test_a_device_that_fails_is_no_property_of_the_bits(compiler):
    """What else a call raises is a verdict, "not defined". After an error of the device, no call has an answer."""

    def compiled(**_):
        raise torch.AcceleratorError("CUDA error: misaligned address")

    (case,) = selected_cases([], ["unary/rounding-f32"]).cases
    result = SimpleNamespace(build=lambda: None, compiled=compiled)
    with pytest.raises(torch.AcceleratorError, match="misaligned"):
        same_bits._called(result, case, compiler.target(NATIVE))
