"""`python -m conformance bench`: selection of cases and targets, measurements, and a run on the CPU."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import types

import pytest
import schemas
import torch

from conformance import case, tensor
from conformance.bench import BenchError, limits, measure, selection
from conformance.bench.limits import Limits, count_flops, minimum_bytes
from conformance.bench.report import Report
from conformance.bench.timing import Spread
from conformance.cases.adhoc import AdhocOptions
from conformance.cases.case import Case
from conformance.cases.roots import OPS
from conformance.compiler.compiler import GeneratingError
from conformance.devices.machine import Machine
from conformance.devices.targets import TargetError, targets

FLIP = str(OPS / "test_flip.py")
MINE = """
from conformance import case, tensor

@case(x=tensor(64), dtype=["f32", "u8"], require={})
def test_double(x):
    return x + x

@case(x=tensor(64), numerics={"raises": "RuntimeError"})
def test_raising(x):
    raise RuntimeError("as declared")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "test_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(call):
    return functools.partial(call, "bench")


def test_a_run_on_the_cpu(mine, call):
    words = ("test_mine.py", "double-f32", "--axis", "dtype=u8,i32", "--min-time", "0.005")
    status, out, err = call(*words, "--json", "a.json", "--markdown", "a.md")
    assert (status, err) == (0, "")
    assert "mine/double" in out
    report = Report.read(mine / "a.json")
    assert schemas.problems("output", "bench", json.loads((mine / "a.json").read_text())) == []
    assert [row.case for row in report.rows] == ["mine/double-u8", "mine/double-i32"]
    assert [row.limit.bytes for row in report.rows] == [2 * 64, 2 * 64 * 4]
    assert all(spread.median > 0 for row in report.rows for spread in row.times.values())
    assert all("serial" in row.facts["kernels"] for row in report.rows)  # generated for one thread
    assert all(bool(row.why) == row.is_slower for row in report.rows)
    assert report.about["threads"] == 1
    assert report.about["command"] == f"python -m conformance bench {' '.join(words)} --markdown a.md"
    assert "| i32 |" in (mine / "a.md").read_text()
    status, out, _ = call("--compare", "a.json", "a.json")
    assert (status, out.splitlines()[-1]) == (0, "0 faster, 0 slower, 2 same within noise")


def test_a_case_that_is_declared_to_raise_is_left_out(mine, call):
    status, out, err = call("test_mine.py", "raising", "--min-time", "0.005", "--json", "a.json")
    assert (status, out) == (1, "")
    assert err == "not measured: mine/raising: the case is declared to raise RuntimeError, so nothing can be timed\n"
    assert not (mine / "a.json").exists()


@pytest.mark.parametrize("option", ["--json", "--markdown"])
@pytest.mark.parametrize(
    ("file", "why"), [("folder", "Is a directory"), ("a_file/deep/a", "Not a directory"), ("/proc/a", "No such file")]
)
def test_a_file_that_cannot_be_written_is_refused_before_the_first_case(mine, call, monkeypatch, option, file, why):
    (mine / "folder").mkdir()
    (mine / "a_file").write_text("no folder can be created here")  # works for root too, unlike a read-only folder
    before = sorted(mine.rglob("*"))
    monkeypatch.setattr(measure.Bench, "measure", lambda *_: pytest.fail("it measures"))
    status, _, err = call("test_mine.py", "double", option, file)
    assert status == 2
    assert f"error: {option} {file}: cannot be written: {why}" in err
    assert err.count("\n") == 1
    assert sorted(mine.rglob("*")) == before


def test_an_interrupted_run_keeps_what_it_has(mine, call, monkeypatch):
    rows = iter([_row("mine/double-f32")])

    def row(self, wanted):
        if found := next(rows, None):
            return found
        raise KeyboardInterrupt

    monkeypatch.setattr(measure.Bench, "measure", row)
    status, out, _ = call("test_mine.py", "double", "--json", "a.json")
    assert status == 130
    assert "interrupted: 1 cases were measured, 1 were not" in out
    report = Report.read(mine / "a.json")
    assert ([row.case for row in report.rows], report.stopped) == (["mine/double-f32"], 1)


def test_an_interruption_that_a_compilation_swallowed_stops_before_the_next_case(mine, call, monkeypatch):
    def row(self, wanted):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return _row(wanted.id)

    monkeypatch.setattr(measure.Bench, "measure", row)
    status, out, _ = call("test_mine.py", "double", "--json", "a.json")
    assert status == 130
    assert "interrupted: 1 cases were measured, 1 were not" in out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _row(name):
    times = {way: Spread(1.0, 0.9, 1.1, 50, 0.95, 1.05) for way in ("eager", "compiled", "copy")}
    return measure.Row(name, "mine/double", {"dtype": "f32"}, False, times, limits.Limit("copy", 1.0, 512), {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name the cases to measure, as in `bench flip`"),
        ((FLIP, "nothing_like_it"), "no case matches 'nothing_like_it'"),
        ((FLIP, "--target", "xpu_pvc"), "this machine does not run xpu_pvc; it runs cpu_"),
        ((FLIP, "--device", "tpu"), "unknown device 'tpu'"),
        ((FLIP, "--threads", "0"), "--threads 0: this process may use 1 to"),
        ((FLIP, "--axis", "dtype"), "--axis dtype: write an axis and its values"),
        ((FLIP, "--axis", "dtype=f33"), "--axis dtype: 'f33' is not one of f64, f32"),
        ((FLIP, "--axis", "sise=3"), "--axis sise: no case has this axis; the cases have"),
        ((FLIP, "--axis", "size=big"), "--axis size: 'big' is not a value like 224"),
        ((FLIP, "--compare", "a.json", "b.json"), "--compare takes two files and no cases"),
        (("--compare", "a.json", "b.json"), "a.json: No such file"),
        (("nowhere:function",), "there is no module 'nowhere'"),
        ((FLIP, "hflip-224-u8", "--input", "x=3"), "flip/hflip-224-u8-contiguous declares its inputs"),
    ],
)
def test_bad_input_is_one_sentence(words, message, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_a_page_without_a_place_is_refused_before_anything_is_measured(mine, call):
    (mine / "page.md").write_text("# Mine\n")
    status, _, err = call("test_mine.py", "--markdown", "page.md")
    assert status == 2
    assert "page.md exists and has no place for the tables" in err


def adds() -> list[Case]:
    def test_add(x, y, alpha):
        return torch.add(x, y, alpha=alpha)

    layouts = tensor(shape=(20, 30), layout=["contiguous"])
    declare = case(x=layouts, y=tensor(20, 30), dtype=["f32", "f64"], alpha=[1, 2], grad=[False, True])
    return declare(test_add).cases


def test_axes_are_given_other_values():
    found = selection.vary_axes(adds(), {"dtype": ["u8"], "layout": ["sliced", "contiguous"], "alpha": ["2", "7"]})
    assert [each.labels for each in found if not each.grad] == [
        ("sliced", "u8", "alpha2", "forward"),
        ("sliced", "u8", "alpha7", "forward"),
        ("contiguous", "u8", "alpha2", "forward"),
        ("contiguous", "u8", "alpha7", "forward"),
    ]
    built = next(each for each in found if each.labels[0] == "sliced" and each.labels[2] == "alpha7").build()
    assert (built["x"].dtype, built["y"].dtype, built["alpha"]) == (torch.uint8, torch.uint8, 7)
    assert (built["x"].is_contiguous(), built["y"].is_contiguous()) == (False, True)


def test_a_function_of_ones_own_and_a_case_with_other_options(mine):
    options = AdhocOptions(inputs=("x=3x4",), grad=("",))
    (found,) = selection.select_cases(["lambda x: x.sin()"], options=options)
    assert (found.grad, found.build()["x"].shape, found.axes) == (("x",), (3, 4), ())
    (found,) = selection.select_cases([f"{mine}/test_mine.py::mine/double-f32"])
    assert (found.id, found.grad) == ("mine/double-f32", ())
    (found,) = selection.select_cases(
        ["test_mine.py", "double-f32"], options=AdhocOptions(grad=("x",), config=("cpp.simdlen=0",))
    )
    assert (found.id, found.grad, found.config) == ("mine/double-f32", ("x",), {"cpp.simdlen": 0})


def test_how_to_compile_is_no_axis_to_change():
    with pytest.raises(BenchError, match="--axis grad: this axis says how to compile"):
        selection.vary_axes(adds(), {"grad": ["True"]})


def test_the_widest_instruction_set_and_one_gpu_are_measured_on():
    machine = Machine(("avx2", "avx512"), {}, 4)
    assert selection.select_target(machine, None, None, 3).name == "cpu_avx512"
    assert selection.select_target(machine, "cpu", None, 3).threads == 3
    assert selection.select_target(machine, None, "cpu_avx2", 1).name == "cpu_avx2"
    row = targets()["cuda_sm90"]
    gpu = Machine(("avx2",), {"cuda": {"capability": [9, 0], "properties": dict(row.properties)}}, 4)
    assert selection.select_target(gpu, "cuda", None, 1) == row
    with pytest.raises(TargetError, match="one target at a time, not on cpu_avx2, cuda_sm90"):
        selection.select_target(gpu, None, "cpu_avx2,cuda_sm90", 1)
    with pytest.raises(TargetError, match=r"does not run cuda_sm80, .*; it runs cpu_avx2, cpu_avx512"):
        selection.select_target(machine, "cuda", None, 1)


def test_least_bytes_are_what_is_shown_and_views_cost_nothing():
    x = torch.zeros(20, 30)
    assert minimum_bytes([x], [x + 1]) == 2 * 20 * 30 * 4
    assert minimum_bytes([x], [x.t()]) == 20 * 30 * 4
    assert minimum_bytes([x[:, :10]], []) == 20 * 10 * 4
    assert minimum_bytes([x[0].expand(50, 30)], []) == 30 * 4
    assert minimum_bytes([x, x], []) == 20 * 30 * 4
    assert minimum_bytes([x[:0]], []) == 0


def test_flops_are_those_of_products_also_within_attention():
    a, b = torch.zeros(3, 5), torch.zeros(5, 7)
    assert count_flops(lambda: a @ b) == 2 * 3 * 5 * 7
    assert count_flops(lambda: a + a) == 0
    q = torch.zeros(1, 2, 8, 4)
    assert count_flops(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)) == 2 * (2 * 2 * 8 * 8 * 4)


class UnpreparedClock:
    def prepare(self, works):
        return works


class Clock(UnpreparedClock):
    """Each call takes 8 µs."""

    def start(self, work, block):  # noqa: ARG002 - there are no blocks
        return lambda: [8e-6]


def test_the_limit_is_the_slower_of_copying_and_computing():
    limits_ = Limits(Clock(), "cpu", 0.0001)
    per_us = 2 * 1024**3 / 8
    copied = limits_.limit(5.0, 1000, 0, torch.float32)
    assert (copied.kind, copied.us, copied.rate) == ("copy", 5.0, pytest.approx(200e6))
    assert limits_.limit(5.0, 1000, int(2 * per_us), torch.float32).kind == "copy"
    computed = limits_.limit(5.0, 1000, int(40 * per_us), torch.float32)
    assert (computed.kind, computed.us) == ("product", pytest.approx(40))
    assert computed.rate == pytest.approx(per_us * 1e6)


@pytest.mark.parametrize("grad", [False, True])
def test_the_same_tensors_go_to_both_functions_and_gradients_are_asked_for(grad):
    seen = []
    wanted = next(each for each in adds() if bool(each.grad) == grad and each.labels[1] == "f32")

    def compiled(**arguments):
        seen.append(arguments)
        return wanted.fn(**arguments)

    calls = measure._Calls.create(wanted, compiled, "cpu")
    got = calls.compiled.function()()
    assert seen[-1]["x"] is calls.eager.names["arguments"]["x"]
    assert len(got) == (2 if grad else 20)  # gradients, or the output's rows
    one = 20 * 30 * 4
    assert calls.bytes == (4 * one if grad else 3 * one)  # the cotangent is also both gradients: no more is written


def test_a_compiled_function_of_another_kind_is_refused():
    wanted = adds()[0]
    with pytest.raises(GeneratingError, match=r"compiled returns float64\[20, 30\], eager returns float32\[20, 30\]"):
        measure._Calls.create(wanted, lambda **arguments: wanted.fn(**arguments).double(), "cpu")


def test_a_recompilation_while_it_is_timed_is_an_error():
    capture = types.SimpleNamespace(modules=[])

    class Recompiling(Clock):
        def start(self, work, block):
            capture.modules.append("another")
            return super().start(work, block)

    bench = measure.Bench(None, targets()["cpu_avx2"], 0.0001, Recompiling())
    with pytest.raises(GeneratingError, match="it was compiled again while it was timed"):
        bench._time(adds()[0], capture, {"eager": measure.Work("f()", {})})


def test_several_outputs_of_which_one_has_a_gradient():
    def test_both(x):
        return x * 2, {"index": x.argmax()}

    wanted = case(x=tensor(5), grad=True)(test_both).cases[0]
    calls = measure._Calls.create(wanted, wanted.fn, "cpu")
    assert len(calls.eager.function()()) == 1
