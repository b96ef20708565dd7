"""The sweep: what becomes of a sample, which cases are selected, and one run from declaring to a stored line."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from suites import NATIVE, Suite

from conformance.cases import run_values, sample_selection, special_values
from conformance.cases.axes import CaseError
from conformance.cases.case import Case
from conformance.cases.declaration_tables import Declarations
from conformance.cases.run_values import RunValues, SampleSelection
from conformance.numerics.check import NumericsError, check_numerics
from conformance.settings import SAMPLE_DTYPES, SWEEP_DTYPES, SettingsError, parse_dtypes, parse_samples
from conformance.sweep.entries import Entry, cases_of

FILE = Path(__file__).parent / "test_opinfo.py"
F32 = SampleSelection(dtypes=("f32",))


def op(samples: Any, function: Any = torch.add, dtypes: Any = (torch.float32, torch.int64), **more: Any) -> Any:
    """A stand-in for PyTorch's OpInfo. `samples`: returns (input, args, kwargs) of each sample."""

    def sample_inputs(_op: Any, device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        assert device == "cpu"
        for input_, args, kwargs in samples(dtype, requires_grad):
            yield SimpleNamespace(input=input_, args=args, kwargs=kwargs)

    known = {"name": "add", "variant_test_name": "", "dtypes": dtypes, "backward_dtypes": (torch.float32,)}
    known["dtypesIfCUDA"] = dtypes
    known |= {"supports_autograd": True, "sample_inputs_func": sample_inputs, "get_op": lambda: function}
    return SimpleNamespace(**known | more)


def tensors(dtype: torch.dtype, grad: bool) -> Any:
    def made(*shape: int) -> torch.Tensor:
        values = torch.randn(shape) if dtype.is_floating_point else torch.randint(0, 9, shape)
        return values.to(dtype).requires_grad_(grad)

    yield made(3), (made(3),), {"alpha": 2}
    yield made(2, 2), (made(2, 2),), {}


def declarations(**tables: Any) -> Declarations:
    return Declarations(tables, "declarations.toml")


def cases(
    entry: Any, selection: SampleSelection = F32, name: str = "add", declared: Declarations | None = None
) -> list[Case]:
    return cases_of(Entry(name, entry), FILE, selection, declared or declarations())


def called(case: Case, call: int = 0) -> Any:
    return case.fn(**case.build(call))


def test_dtypes_samples_and_gradients_make_the_ids():
    every = SampleSelection(0, SAMPLE_DTYPES)
    assert [case.id for case in cases(op(tensors), every)] == [
        "opinfo/add-f32-backward-sample0",
        "opinfo/add-f32-backward-sample1",
        "opinfo/add-i64-forward-sample0",
        "opinfo/add-i64-forward-sample1",
    ]
    assert len(cases(op(tensors), SampleSelection(1, SAMPLE_DTYPES))) == 2
    assert [case.labels for case in cases(op(tensors, supports_autograd=False))] == [("f32", "forward", "sample0")]
    assert not cases(op(tensors), SampleSelection(entries=("mul",)))


def test_the_first_call_has_the_values_of_seed_0():
    [case] = cases(op(tensors))
    torch.manual_seed(0)
    expected = torch.randn(3) + 2 * torch.randn(3)
    torch.manual_seed(5)
    assert torch.equal(called(case), expected)
    assert case.grad == ("input", "args[0]")
    assert all(tensor.is_leaf and tensor.requires_grad for tensor in (case.build()["input"], case.build()["args"][0]))


def test_drawing_leaves_the_generators_as_they_were():
    def drawing(dtype: torch.dtype, grad: bool) -> Any:
        yield torch.full((2,), random.random() + np.random.rand(), dtype=dtype), (torch.randn(2),), {}

    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    expected = torch.randn(1), random.random(), np.random.rand()
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    [case] = cases(op(drawing, supports_autograd=False))
    first = called(case)
    assert torch.equal(first, called(case))
    assert not torch.equal(first, called(case, 1))
    assert (torch.randn(1), random.random(), np.random.rand()) == expected


def test_a_call_cannot_change_the_values_of_the_next():
    [case] = cases(op(tensors, function=lambda x, *_args, **_named: x.detach().zero_()))
    before = case.build()["input"].clone()
    called(case)
    assert torch.equal(case.build()["input"], before)


def test_another_shape_in_the_second_call_keeps_the_first_values():
    def uneven(dtype: torch.dtype, grad: bool) -> Any:
        size = 2 if torch.initial_seed() == 0 else 3
        yield torch.randn(2), (torch.randn(size),), {}

    [case] = cases(op(uneven, supports_autograd=False))
    first, second = case.build(0), case.build(1)
    assert torch.equal(first["args"][0], second["args"][0])
    assert not torch.equal(first["input"], second["input"])


def test_the_run_seed_draws_other_values(monkeypatch):
    [case] = cases(op(tensors))
    first = called(case)
    monkeypatch.setattr(run_values, "_used", [RunValues(seed=1)])
    assert not torch.equal(first, called(case))


def test_containers_and_constants_stay():
    def nested(dtype: torch.dtype, grad: bool) -> Any:
        yield [torch.ones(2), torch.ones(2)], (1, slice(0, 1)), {"how": {"scale": torch.ones(1), "dim": 0}}

    def function(xs: Any, number: Any, part: Any, how: Any) -> Any:
        return torch.stack(xs, how["dim"])[part] * number * how["scale"]

    [case] = cases(op(nested, function, supports_autograd=False))
    assert list(case.recipes) == ["input[0]", "input[1]", "kwargs['how']['scale']"]
    assert torch.equal(called(case), torch.ones(1, 2))


def test_an_argument_that_is_the_cpu_becomes_the_device_of_the_case():
    def factory(dtype: torch.dtype, grad: bool) -> Any:
        yield 3, (), {"device": "cpu"}

    def moved(dtype: torch.dtype, grad: bool) -> Any:
        yield torch.ones(2), (torch.device("cpu"), torch.float64), {"device": "cpu"}

    [case] = cases(op(factory, torch.zeros, supports_autograd=False))
    on_meta = {name: value.to("meta") if name == "where" else value for name, value in case.build().items()}
    assert case.fn(**on_meta).device.type == "meta"
    [case] = cases(op(moved, lambda *args, **named: (args[1], named["device"]), supports_autograd=False))
    arguments = case.build()
    assert case.fn(**arguments | {"input": arguments["input"].to("meta")}) == (torch.device("meta"),) * 2


def test_indices_of_tensor_split_stay_on_the_cpu():
    def split(dtype: torch.dtype, grad: bool) -> Any:
        yield torch.arange(4.0), (torch.tensor([1]),), {}

    [case] = cases(op(split, torch.tensor_split, supports_autograd=False), name="tensor_split")
    assert list(case.recipes) == ["input"]
    assert [len(part) for part in called(case)] == [1, 3]


def test_special_values_only_if_asked_for_and_never_in_integers():
    def indexed(dtype: torch.dtype, grad: bool) -> Any:
        yield torch.randn(8), (torch.arange(8),), {}

    entry = op(indexed, supports_autograd=False)
    [without] = cases(entry)
    [case] = cases(entry, SampleSelection(dtypes=("f32",), special_values=True))
    assert not list(special_values.calls(without, {}, ()))
    found = {call.group: call.arguments for call in special_values.calls(case, {}, ())}
    assert found["nan"]["input"].isnan().any()
    assert all(torch.equal(arguments["args"][0], torch.arange(8)) for arguments in found.values())


def test_declarations_of_an_entry_and_of_a_case():
    declared = declarations(
        random={"entries": ["add"], "leaves_out": ["numerics"], "reason": "random numbers"},
        zeros={"cases": ["add-f32-backward-sample0"], "constant": ["output"], "reason": "zeros"},
        ones={
            "cases": ["add-sample0"],
            "constant": ["gradient of input"],
            "numerics": {"exact": True},
            "reason": "ones",
        },
    )
    first, second = cases(op(tensors), SampleSelection(2, ("f32",)), declared=declared)
    assert first.numerics == {"exact": True, "fill": {"output": "zeros", "gradient of input": "ones"}}
    assert (second.numerics, second.left_out) == ({}, {"numerics": "random numbers"})


def test_a_declaration_holds_in_its_dtypes_and_for_gradients_that_there_are():
    declared = declarations(
        integers={"entries": ["add"], "dtypes": ["i64"], "constant": ["output"], "reason": "integers"},
        steps={"entries": ["add"], "constant": ["gradient of input"], "reason": "steps"},
    )
    backward, forward = cases(op(tensors), SampleSelection(1, ("f32", "i64")), declared=declared)
    assert backward.numerics == {"fill": {"gradient of input": "steps"}}
    assert forward.numerics == {"fill": {"output": "integers"}}


def test_tensors_that_decide_nothing_stand_beside_constants():
    undecided = {"fill": {"gradient of input": "rounded"}}
    declared = declarations(
        zeros={"entries": ["add"], "constant": ["output"], "reason": "zeros"},
        rounded={"entries": ["add"], "numerics": undecided, "reason": "rounded"},
    )
    [case] = cases(op(tensors), SampleSelection(1, ("f32",)), declared=declared)
    assert case.numerics == {"fill": {"output": "zeros", "gradient of input": "rounded"}}


def test_a_declaration_holds_on_its_versions_of_torch():
    this = torch.__version__.partition("+")[0]
    declared = declarations(
        now={"entries": ["add"], "torch": f"=={this}", "constant": ["output"], "reason": "now"},
        before={"entries": ["add"], "torch": f"<{this}", "constant": ["gradient of input"], "reason": "before"},
    )
    [case] = cases(op(tensors), SampleSelection(1, ("f32",)), declared=declared)
    assert case.numerics == {"fill": {"output": "now"}}


def test_a_dtype_that_eager_lacks_on_cuda_is_no_case_there():
    def only(listed: tuple[torch.dtype, ...], dtype: str, **tables: Any) -> list[str]:
        entry = op(tensors, dtypes=(torch.float32, torch.bfloat16), dtypesIfCUDA=listed)
        [case] = cases(entry, SampleSelection(1, (dtype,)), declared=declarations(**tables))
        return list(case.only)

    assert only((torch.float32,), "bf16") == ["cpu", "xpu"]
    assert only((torch.float32,), "f32") == []
    # PyTorch lists bfloat16 where it sees a GPU that has it; a machine without a GPU gets the same cases
    assert only((torch.float16,), "bf16") == []
    declared = {"entries": ["add"], "only": {"cpu": "there alone"}, "reason": "…"}
    assert only((torch.float32,), "bf16", declared=declared) == ["cpu"]


def test_further_calls_tell_a_constant_from_luck():
    """The eighth call draws another number. A result that never changes is made of constants."""

    def mostly_one(dtype: torch.dtype, grad: bool) -> Any:
        yield torch.tensor([2.0 if torch.initial_seed() == 7 else 1.0]), (), {}

    made = []

    def plus_one(x: torch.Tensor) -> torch.Tensor:
        made.append(x.item())
        return x + 1

    [case] = cases(op(mostly_one, plus_one, supports_autograd=False))
    check_numerics(case, lambda **named: named["input"] + 1, "cpu")
    assert made[::2] == [1.0] * 7 + [2.0]  # each call: eager, and float64
    with pytest.raises(NumericsError, match="with other values: compiled disagrees"):
        check_numerics(case, lambda **named: torch.full_like(named["input"], 2), "cpu")
    [case] = cases(op(mostly_one, torch.zeros_like, supports_autograd=False))
    with pytest.raises(NumericsError, match=re.escape("output: every element is 0.0 in every call")):
        check_numerics(case, case.fn, "cpu")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"cases": ["add"], "dtypes": ["f8"], "reason": "x"}, "unknown dtype 'f8'; known are f32, bf16"),
        ({"cases": ["add-f32"], "why": "?", "reason": "x"}, "unknown key 'why'; the keys are cases, entries"),
        ({"cases": ["add-f32"]}, "`reason` is missing: say in a sentence why"),
        ({"reason": "x"}, "write `cases` or `entries`"),
        ({"entries": ["add"], "leaves_out": ["speed"], "reason": "x"}, "unknown check 'speed'; known are numerics"),
        (
            {"entries": ["add"], "torch": "2.13", "reason": "x"},
            "torch is '2.13'; write a range of versions, such as '>=",
        ),
        (3, "write a table with the keys"),
    ],
)
def test_a_wrong_declaration_is_refused(table, message):
    with pytest.raises(CaseError, match=re.escape(message)):
        declarations(wrong=table)


def test_a_declaration_of_no_entry_is_refused(tmp_path):
    with pytest.raises(CaseError, match="op_db has no entry 'mul'; correct or remove it"):
        declarations(old={"cases": ["mul-f32-forward-sample0"], "reason": "x"}).refuse_unknown_entries({"add"})
    (tmp_path / "declarations.toml").write_text("[broken")
    with pytest.raises(CaseError, match="cannot be read"):
        Declarations.read(tmp_path / "declarations.toml")


def test_options():
    assert (parse_samples("all"), parse_samples("3")) == (0, 3)
    assert parse_dtypes(None) == SWEEP_DTYPES
    assert parse_dtypes("i64, f32") == ("f32", "i64")
    assert parse_dtypes("all") == SAMPLE_DTYPES
    for text in ("0", "-1", "many", ""):
        with pytest.raises(SettingsError, match=r"--samples .*: give a whole number of 1 or more, or all"):
            parse_samples(text)
    for text, problem in (("f8", "unknown dtype 'f8'"), (",", "no dtype is named")):
        with pytest.raises(SettingsError, match=f"--dtypes: {problem}; known are f32, bf16"):
            parse_dtypes(text)


def test_a_process_that_starts_later_has_the_values_of_the_run(monkeypatch):
    monkeypatch.setattr(run_values, "_used", [RunValues()])
    chosen = RunValues(3, 2.5, SampleSelection(0, ("f32", "u8"), special_values=True, entries=("add",)))
    run_values.use(seed=3, factor=2.5)
    run_values.use(selection=chosen.selection)
    message = json.loads(json.dumps(run_values.sent()))
    monkeypatch.setattr(run_values, "_used", [RunValues()])
    run_values.receive(message)
    assert run_values.current() == chosen
    found = sample_selection.of_case("opinfo/mul-bf16-forward-sample7-cuda_sm90")
    assert found == SampleSelection(8, ("bf16",), special_values=True, entries=("mul",))
    assert sample_selection.of_case("flip/hflip-224-u8-contiguous") is None


def test_a_run_from_the_samples_to_a_stored_line(tmp_path):
    """Imports PyTorch's list and stores the line of one operator, in a dtype of which the suite stores nothing."""
    suite = Suite(tmp_path)
    options = ("--pyargs", "conformance.sweep", "-q", "--target", NATIVE, "--dtypes", "f16", "--store", "own")
    options += ("-k", "test_neg", "--checks", "requirements,code")
    (tmp_path / "own").mkdir()
    accepted = suite.run(*options, env={"EXPECTTEST_ACCEPT": "new"}, timeout=600).ends(0)
    stored = next((tmp_path / "own" / "expected_digests").rglob("opinfo-f16.txt")).read_text().splitlines()
    assert accepted.outcomes()["passed"] >= 1
    assert any(line.startswith("neg-f16-backward-sample0  0x") for line in stored), stored
