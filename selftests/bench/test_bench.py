"""How `bench` evaluates measurements: interleaving, noise, explanations, tables, pages, comparisons, files."""

from __future__ import annotations

import dataclasses
import inspect
import json
import shlex
import sys
import types

import pytest

from conformance.bench import BenchError, compare, explain, markdown, table
from conformance.bench.limits import Limit
from conformance.bench.report import Report, Row
from conformance.bench.timing import MIN_TURNS, CpuClock, GpuClock, Spread, Work, time_interleaved
from conformance.devices.targets import targets

ONE_THREAD = dataclasses.replace(targets()["cpu_avx512"], threads=1)
NOT_VECTORISED = "no: load index 224*x0 - x1 + 223 is not contiguous in x1 (stride -1), 1 of 2 operations"
MOVED = "8000 read, 8000 written: 2.0 times the least, 8000"
FACTS = {"kernels": "1: flip (pointwise 672x224, serial)", "vectorised": NOT_VECTORISED, "graph_breaks": "none"}
ABOUT = {
    "target": "cpu_avx512",
    "device": "cpu",
    "threads": 1,
    "processor": "Some CPU",
    "cores": 2,
    "load": 0.1,
    "torch": "2.13.0+cpu",
    "triton": "3.7.1",
    "python": "3.11.7",
    "seconds": 0.3,
    "command": "python -m conformance bench flip",
}


def spread(median, iqr=0.2):
    return Spread(median, median - iqr / 2, median + iqr / 2, 50, median - iqr / 4, median + iqr / 4)


def row(eager, compiled, size="224", dtype="u8", layout="contiguous", iqr=0.2, copy=4.0, function="flip/hflip", why=()):
    times = {"eager": spread(eager, iqr), "compiled": spread(compiled, iqr), "copy": spread(copy)}
    axes = {"x.size": size, "x.dtype": dtype, "x.layout": layout}
    case = f"{function}-{'-'.join(axes.values())}"
    return Row(case, function, axes, False, times, Limit("copy", copy, 301056), FACTS, list(why))


class UnpreparedClock:
    def prepare(self, works):
        return works


class FakeClock(UnpreparedClock):
    """Each block takes the time in `costs`. `order`: what was timed, in order."""

    def __init__(self, costs):
        self.costs, self.order, self.time = costs, [], 0.0

    def start(self, work, block):  # noqa: ARG002 - its blocks are as long as they are
        def timed():
            self.order.append(work.stmt)
            self.time += self.costs[work.stmt]
            return [self.costs[work.stmt]]

        return timed


def test_functions_take_turns_and_who_goes_first_changes():
    clock = FakeClock({"a": 0.01, "b": 0.03})
    times = time_interleaved({"a": Work("a"), "b": Work("b")}, clock, 1.0, now=lambda: clock.time)
    assert clock.order[:6] == ["a", "b", "b", "a", "a", "b"]
    assert times["a"].samples == times["b"].samples == 50
    assert (times["a"].median, times["b"].median, times["b"].iqr) == (10_000, 30_000, 0)


def test_slow_functions_have_the_least_number_of_turns_and_very_slow_ones_fewer():
    slow, very_slow = FakeClock({"a": 1.0}), FakeClock({"a": 30.0})
    assert time_interleaved({"a": Work("a")}, slow, 1.0, now=lambda: slow.time)["a"].samples == MIN_TURNS
    assert time_interleaved({"a": Work("a")}, very_slow, 1.0, now=lambda: very_slow.time)["a"].samples == 1


def test_spread_is_the_median_and_the_quartiles():
    found = Spread.of([5e-6, 1e-6, 3e-6, 2e-6, 4e-6])
    assert (found.low, found.median, found.high, found.samples) == (2, 3, 4, 5)
    assert found.noisy
    assert not spread(10, iqr=1).noisy


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (spread(10), spread(10.3), False),  # apart, but by 3 %
        (spread(10), spread(11), True),
        (spread(10, 3), spread(11, 3), False),  # 10 %, within the quartiles
        (spread(11), spread(10), True),
    ],
)
def test_medians_differ_beyond_noise(one, other, differ):
    assert one.differs(other, 0.05) is differ


def test_medians_timed_in_turns_differ_where_their_own_ranges_do():
    disturbed = [1e-6] * 70 + [9e-6] * 30
    one, other = Spread.of(disturbed), Spread.of([2 * each for each in disturbed])
    assert (one.median, one.high, one.least, one.most) == (1, 9, 1, 1)
    assert not one.differs(other)
    assert one.differs(other, 0.05, interleaved=True)
    few = [Spread.of([1e-6, 3e-6, 9e-6]), Spread.of([2e-6, 6e-6, 18e-6])]
    assert (few[0].least, few[0].most) == (1, 9)  # of so few, the median says little
    assert not few[0].differs(few[1], interleaved=True)


def test_the_median_s_range_is_by_rank():
    found = Spread.of([each * 1e-6 for each in range(1, 101)])
    assert (found.median, found.least, found.most) == (50.5, 41, 60)


def test_cpu_clock_calls_the_statement_with_its_names():
    calls = []
    block = CpuClock().start(Work("fn(1)", {"fn": calls.append}), 0.001)
    before = len(calls)
    assert all(each > 0 for each in block())
    assert len(calls) > before


def test_gpu_clock_asks_do_bench_for_all_times_in_milliseconds(monkeypatch):
    asked = []

    def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
        asked.append((fn(), rep, return_mode))
        return [0.002, 0.004]

    monkeypatch.setitem(sys.modules, "triton.testing", types.SimpleNamespace(do_bench=do_bench))
    block = GpuClock().start(Work("fn(3)", {"fn": lambda n: n + 1}), 0.006)
    assert list(block()) == [2e-6, 4e-6]
    assert asked == [(4, 6.0, "all")] * 2


def test_do_bench_of_this_triton_is_called_as_it_wants():
    testing = pytest.importorskip("triton.testing", reason="Triton is not installed")
    known = inspect.signature(testing.do_bench).parameters
    assert {"fn", "warmup", "rep", "return_mode"} <= set(known)
    assert '"all"' in inspect.getsource(testing.do_bench)


def why(row_, values, call_overhead=1.0, target=ONE_THREAD):
    return explain.reasons({"kernels": 1, "vectorised": "yes", "graph_breaks": 0} | values, row_, call_overhead, target)


def test_a_loser_is_explained_by_the_fact_that_costs_it():
    assert why(row(10, 60), {"vectorised": "no"}) == [f"vectorised {NOT_VECTORISED}"]


def test_the_cost_of_calling_comes_first_where_it_is_most_of_the_loss():
    found = why(row(10, 21), {"vectorised": "no"}, call_overhead=10.0)
    assert found[0] == "calling a compiled function costs 10.0 µs more than eager here"
    assert found[1].startswith("vectorised no")


@pytest.mark.parametrize(
    ("lines", "values", "message"),
    [
        ({}, {"fallbacks": ["aten.sort", "aten.sort"]}, "fallbacks aten.sort"),
        ({}, {"kernels": 3}, "3 kernels instead of 1"),
        (
            {"unfused": "1 and 2: a reduction"},
            {"kernels": 2, "unfused": 1},
            "2 kernels instead of 1: unfused 1 and 2: a reduction",
        ),
        ({"graph_breaks": "1\n  print()"}, {"graph_breaks": 1}, "graph_breaks 1: print()"),
        (
            {"vectorised": "yes: 16 lanes along x1, sin element by element"},
            {},
            "vectorised yes: 16 lanes along x1, sin",
        ),
        ({"bytes": MOVED}, {"bytes": 2.0, "bytes.read": 8000, "bytes.written": 8000}, f"bytes {MOVED}"),
        ({"bytes": MOVED}, {"bytes": 2.0, "bytes.read": 8, "bytes.written": 8}, "no fact explains it"),
        ({}, {"kernels": 0, "extern": ["mm"]}, "extern mm: Inductor generates no kernel"),
        ({}, {}, "no fact explains it"),
    ],
)
def test_other_facts_that_cost_time(lines, values, message):
    loser = row(10, 60)
    loser.facts = FACTS | {"vectorised": "yes: 16 lanes along x1"} | lines
    found = why(loser, values)
    assert len(found) == 1
    assert found[0].startswith(message)


def test_a_serial_kernel_explains_a_loss_on_several_threads_alone():
    loser = row(10, 60)
    loser.facts = FACTS | {"vectorised": "yes: 16 lanes along x1"}
    assert why(loser, {}, target=dataclasses.replace(ONE_THREAD, threads=2))[0].startswith(
        "serial on 2 threads: 1: flip"
    )
    assert why(loser, {})[0].startswith("no fact")


def test_gradients_need_two_kernels():
    loser = row(10, 60)
    loser.gradients, loser.facts = True, FACTS | {"vectorised": "yes: 16 lanes along x1"}
    assert why(loser, {"kernels": 2})[0].startswith("no fact")
    assert why(loser, {"kernels": 3}) == ["3 kernels instead of 2"]


@pytest.fixture
def report():
    lost = "vectorised no: load index 224*x0 - x1 + 223 is not contiguous in x1 (stride -1), 1 of 2 operations"
    return Report(
        dict(ABOUT),
        [
            row(9.2, 48, why=[lost]),
            row(9.3, 47, layout="sliced", why=[lost]),
            row(30, 15, size="256", layout="channels_last"),
            row(10, 10.1, function="flip/vflip"),
        ],
    )


def test_a_table_for_each_function_with_its_axes_and_the_loser_explained(report, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    text = table.text(report)
    assert max(map(len, text.splitlines())) <= 120
    assert "cpu_avx512 (Some CPU), 1 thread; torch 2.13.0+cpu, Python 3.11.7; load 0.1 on 2 cores" in text
    expected = """\
flip/hflip: dtype u8
size  layout            eager µs  compiled µs  ratio   limit µs  limit/eager  limit/compiled
224   contiguous     9.20 (0.20)  48.0 (0.20)  0.19×  copy 4.00         43 %             8 %
224   sliced         9.30 (0.20)  47.0 (0.20)  0.20×  copy 4.00         43 %             9 %
256   channels_last  30.0 (0.20)  15.0 (0.20)  2.00×  copy 4.00         13 %            27 %
limit: copy of 301 kB at 75.3 GB/s
compiled is slower in 2 of 3:
  224 contiguous (5.2× slower), 224 sliced (5.1× slower): vectorised no: load index 224*x0 - x1 + 223 is not contiguous
      in x1 (stride -1), 1 of 2 operations

flip/vflip: size 224, dtype u8, layout contiguous
   eager µs  compiled µs  ratio   limit µs  limit/eager  limit/compiled
"""
    assert expected in text


def test_axes_that_name_themselves_need_no_name_before_them():
    lone = row(1, 2)
    lone.axes = {"dtype": "f32", "beta": "beta0.5", "grad": "backward", "dynamic": "static"}
    assert table.varying_axes([lone]) == ({}, "dtype f32, beta0.5, backward, static")


def test_the_rates_of_the_limits_are_said_smallest_first():
    rows = [row(1, 2) for _ in range(6)]
    for number, each in enumerate(rows):
        each.limit = Limit("copy", 1.0, 10 ** (number + 2))
    rows[5].limit = Limit("product", 2.0, 100, 4 * 10**9)
    assert table.limits_line(rows) == (
        "limit: copy of 100 B at 100 MB/s, copy of 1.00 kB at 1.00 GB/s, copy of 10.0 kB at 10.0 GB/s, "
        "copy of 100 kB at 100 GB/s, 2 more"
    )
    assert table.limits_line(rows[5:]) == "limit: product of 4.00 GFLOP at 2000 TFLOP/s"


def test_two_inputs_with_an_axis_of_one_name_keep_their_own():
    rows = [row(1, 2), row(1, 2, dtype="f32")]
    for each, layout in zip(rows, ("contiguous", "sliced"), strict=True):
        each.axes = {"a.layout": "contiguous", "b.layout": layout, "a.dtype": "u8"}
    assert table.varying_axes(rows) == ({"b.layout": "b.layout"}, "a.layout contiguous, dtype u8")


def test_noise_and_an_interruption_are_said(report):
    report.rows.append(row(10, 10, size="256", iqr=9))
    report.stopped = 3
    text = table.text(report)
    assert "noisy: in 1 of 5 cases the quartiles are more than 25 % of the median apart" in text
    assert "interrupted: 5 cases were measured, 3 were not" in text


def test_a_page_keeps_what_is_around_the_device_s_part(report, tmp_path):
    page = tmp_path / "flip.md"
    start, end = markdown.markers("cpu")
    page.write_text(f"# Flips\n\n{start}\nold\n{end}\n\nThe H200:\n")
    markdown.write(report, page)
    markdown.write(report, page)
    text = page.read_text()
    assert text.startswith(f"# Flips\n\n{start}\n\n```\npython -m conformance bench flip\n```\n")
    assert text.endswith(f"{end}\n\nThe H200:\n")
    assert text.count("### `flip/hflip`: dtype u8") == 1
    assert "old" not in text
    assert "| 224 | contiguous | 9.20 (0.20) | 48.0 (0.20) | **0.19×** | copy 4.00 | 43 % | 8 % | no |" in text
    assert "- 224 contiguous (5.2× slower), 224 sliced (5.1× slower): vectorised no: load index 224\\*x0" in text
    assert max(map(len, text.splitlines())) <= 150


def test_a_long_command_is_broken_before_a_word(report, tmp_path):
    report.about["command"] = (
        f"python -m conformance bench 'lambda x: x + 1' {'--axis dtype=u8,f32 ' * 7}--markdown a.md"
    )
    markdown.write(report, tmp_path / "a.md")
    block = (tmp_path / "a.md").read_text().split("```")[1].strip("\n")
    assert max(map(len, block.splitlines())) <= 150
    assert shlex.split(block.replace("\\\n", "")) == shlex.split(report.about["command"])
    assert len(block.splitlines()) == 2


def test_a_new_page_can_be_written_again_and_a_page_without_a_place_is_refused(report, tmp_path):
    new, mine = tmp_path / "new.md", tmp_path / "mine.md"
    markdown.write(report, new)
    once = new.read_text()
    markdown.write(report, new)
    assert new.read_text() == once
    mine.write_text("# Mine\n")
    for function in (lambda: markdown.check_markers(mine, "cpu"), lambda: markdown.write(report, mine)):
        with pytest.raises(BenchError, match="<!-- bench cpu -->"):
            function()
    assert mine.read_text() == "# Mine\n"
    markdown.check_markers(new, "cpu")
    markdown.check_markers(tmp_path / "none.md", "cpu")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (row(10, 50), row(10, 40), compare.FASTER),
        (row(10, 50), row(10, 60), compare.SLOWER),
        (row(10, 50), row(10, 51), compare.SAME),  # 2 %
        (row(10, 50, iqr=12), row(10, 60, iqr=12), compare.SAME),  # quartiles overlap
        (row(10, 50), row(13, 60), compare.SAME),  # eager moved as far: the machine did
        (row(13, 60), row(10, 50), compare.SAME),
        (row(10, 50), row(13, 90), compare.SLOWER),
    ],
)
def test_verdicts(old, new, message):
    assert compare.verdict(old, new, comparable=True) == message


def test_eager_says_nothing_of_the_machine_where_torch_is_another():
    assert compare.verdict(row(10, 50), row(13, 60), comparable=False) == compare.SLOWER


def test_comparing_two_reports(report):
    new = Report(ABOUT | {"torch": "2.15.0+cpu"}, [row(9.2, 20), row(10, 10.1, function="flip/rot90")])
    text = compare.text(report, new)
    assert "not the same machine or versions: torch 2.13.0+cpu → 2.15.0+cpu" in text
    assert "48.0 (0.20)  20.0 (0.20)   -58 %            +0 %   faster" in text
    assert text.endswith("1 faster, 0 slower, 0 same within noise, 3 only in the old, 1 only in the new")
    assert "not the same" not in compare.text(report, report)
    assert compare.text(report, report).endswith("0 faster, 0 slower, 4 same within noise")


def test_a_report_comes_back_as_it_was_written(report, tmp_path):
    report.stopped = 2
    report.write(tmp_path / "bench.json")
    assert Report.read(tmp_path / "bench.json") == report


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("not json", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        ("[1, 2]", "was not written by `bench --json`: it has no format 'conformance bench 1'"),
        ('{"format": "conformance bench 9"}', "its format is 'conformance bench 9', not"),
        ('{"format": "conformance bench 1"}', "is damaged"),
        ('{"format": "conformance bench 1", "about": {}, "rows": [{}], "stopped": 0}', "is damaged"),
        ('{"format": "conformance bench 1", "about": {}, "rows": [], "stopped": 0}', "is damaged"),
    ],
)
def test_files_that_are_not_ours_are_refused(content, message, tmp_path):
    path = tmp_path / "bench.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BenchError, match=rf"bench\.json.*{message}"):
        Report.read(path)


def test_a_row_without_its_times_is_damage(report, tmp_path):
    report.write(tmp_path / "bench.json")
    data = json.loads((tmp_path / "bench.json").read_text())
    del data["rows"][0]["times"]["compiled"]
    (tmp_path / "bench.json").write_text(json.dumps(data))
    with pytest.raises(BenchError, match="compiled"):
        Report.read(tmp_path / "bench.json")
