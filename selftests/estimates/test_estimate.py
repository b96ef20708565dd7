"""`python -m conformance estimate`: arithmetic, tables, files, comparisons and messages."""

from __future__ import annotations

import json

import pytest
import schemas
from capturing import captured

from conformance.cases.inputs import tensor
from conformance.cli.main import main
from conformance.devices.speeds import Speeds, speeds_of
from conformance.devices.targets import targets
from conformance.estimates import compare, table
from conformance.estimates.model import Estimate, estimate
from conformance.estimates.report import FORMAT, Report
from conformance.facts.least_times import CallEstimate, least_us

SPEEDS = Speeds(
    "t", "p", "s", "a", bandwidth=1e12, start=1e-6, rates={"f32": 1e12, "integer": 1e12, "matrix bf16": 1e14}
)
MINE = """
from conformance import case, tensor

@case(x=tensor(4096, 64), y=tensor(64, 32))
def test_product(x, y):
    return (x @ y).relu() + 1

@case(x=tensor(64), only={"cuda": "it is an example"})
def test_gpu(x):
    return x + x
"""
LARGE_PRODUCT = ["lambda x, y: (x @ y).relu()", "--input", "x=8192x8192:bf16", "--input", "y=8192x8192:bf16"]


@pytest.mark.parametrize(
    ("moved", "operations", "us", "bound"),
    [
        (0, {}, 1.0, "start"),
        (1000, {}, 1.001, "start"),
        (2_000_000, {}, 3.0, "bytes"),
        (2_000_000, {"f32": 1_000_000}, 3.0, "bytes"),
        (2_000_000, {"f32": 4_000_000}, 5.0, "f32"),
        (2_000_000, {"f32": 4_000_000, "matrix bf16": 600_000_000}, 7.0, "matrix bf16"),
        (0, {"f64": 3_000_000}, 4.0, "f64"),  # without a figure: as f32
    ],
)
def test_least_time(moved, operations, us, bound):
    assert least_us(moved, operations, SPEEDS) == (pytest.approx(us), bound)


def twice(x):
    return (x.sum(-1) + 1).sort(), (x.sum(-1) + 1)


def test_an_estimate_has_each_call_and_the_longest_first():
    found = estimate(captured(twice, "cpu_avx512", x=tensor(64, 1000)), speeds_of(targets()["cpu_avx512"]))
    assert [call.total_us for call in found.calls] == sorted((call.total_us for call in found.calls), reverse=True)
    assert found.read == sum(call.read * call.count for call in found.calls)
    assert found.us == pytest.approx(sum(call.us for call in found.calls))
    assert {call.call for call in found.calls} == {"kernel", "fallback"}


def one(name="add (pointwise 10)", us=2.0, count=1, moved=80):
    return CallEstimate(name, "kernel", "", moved // 2, moved // 2, {"f32": 20}, us, "bytes", "triton_poi_0", count)


def made(*calls, case="a/b", target="cuda_sm90"):
    return Estimate(case, target, "H200 SXM", 100, 100, 150, 2, list(calls))


ABOUT = {"torch": "2.13.0", "triton": "3.7.1", "command": "python -m conformance estimate a/b"}


def test_a_table_says_that_it_is_an_estimate_and_what_it_leaves_out():
    text = table.text(made(one(us=6.0, count=2), one("mul", us=3.0), one("sub", us=1.0)), "as told", 2)
    assert "at least 16.0 µs by estimate: 4 kernels, 0 other calls; 100 B read, 100 B written, 1.33 times" in text
    assert text.splitlines()[-1] == "and 1 more with 1.00 µs, 6.2%: --top 0 shows all"
    assert "75.0%" in text
    assert "sub" in table.text(made(one("sub")), "as told", 0)
    legend = " ".join(table.legend().split())
    assert legend.startswith("ESTIMATE, nothing was run")
    for each in ("launches", "cache", "too small to fill", "coalesced"):
        assert each in legend


def test_a_file_holds_the_estimates(tmp_path):
    path = tmp_path / "estimate.json"
    written = Report(ABOUT, [made(one(), one("mul"))])
    written.write(path)
    assert Report.read(path) == written
    data = json.loads(path.read_text())
    assert data["format"] == FORMAT
    assert data["estimates"][0]["us"] == 4.0
    assert not schemas.problems("output", "estimate", data)


def test_comparing_shows_what_one_side_alone_has():
    old = Report(ABOUT, [made(one(count=2), one("mul", us=5.0)), made(one(), case="a/old")])
    new = Report(ABOUT | {"torch": "2.15.0"}, [made(one(count=1), one("mul", us=5.0), one("sub", us=9.0, moved=200))])
    lines = compare.text(old, new, 20).splitlines()
    assert lines[0].startswith("old: torch 2.13.0: python -m conformance estimate")
    [total] = [line for line in lines if line.startswith("a/b")]
    assert total.split() == ["a/b", "cuda_sm90", "9.00", "16.0", "+77.8%", "3", "3", "200", "B", "200", "B"]
    differing = lines[lines.index("# a/b for cuda_sm90: calls that differ") + 2 :]
    assert [line.split()[:2] for line in differing[:2]] == [["+", "sub"], ["-", "add"]]
    assert lines[-1] == "only in one of the files: 1 of the estimates"
    assert "calls that differ" not in compare.text(old, old, 20)
    assert compare.text(old, new, 1).splitlines()[-3] == "and 1 more: --top 0 shows all"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_cases_on_targets(mine, capsys):
    words = ["estimate", "mine/", "--target", "cpu_avx512,cuda_sm90", "--target", "cuda_sm90", "--json", "new.json"]
    assert main(words) == 1  # one case is for cuda alone
    out, err = capsys.readouterr()
    assert out.startswith("ESTIMATE, nothing was run")
    assert "# mine/product for cpu_avx512 (8 cores, DDR5): generated, not run; torch " in out
    assert "# mine/product for cuda_sm90 (H200 SXM): generated without the device; torch " in out
    assert err.startswith("not estimated: cpu_avx512: mine/gpu is for cuda only")
    data = json.loads((mine / "new.json").read_text())
    assert not schemas.problems("output", "estimate", data)
    assert [(each["case"], each["target"]) for each in data["estimates"]] == [
        ("mine/product", "cpu_avx512"),
        ("mine/product", "cuda_sm90"),
        ("mine/gpu", "cuda_sm90"),
    ]
    product = data["estimates"][1]["calls"]
    assert {"matrix f32": 2 * 4096 * 64 * 32} in [each["operations"] for each in product]
    assert main(["estimate", "--compare", "new.json", "new.json"]) == 0
    assert "+0.0%" in capsys.readouterr().out


@pytest.mark.long("it captures a product of large matrices")
def test_a_large_function_is_not_computed(mine, capsys):
    """On the CPU, this product takes minutes."""
    assert main(["estimate", *LARGE_PRODUCT, "--target", "cuda_sm90", "--product", "H100"]) == 0
    out = capsys.readouterr().out
    assert "(H100 SXM)" in out
    first = next(line for line in out.splitlines() if line.startswith("matrix bf16"))
    assert float(first.split("(extern)")[1].split()[0]) == pytest.approx(2 * 8192**3 / 989.5e12 * 1e6 + 1.5, rel=0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the cases to estimate, as in `estimate sdpa`"),
        (["mine/product", "--target", "cuda_sm91"], "unknown target 'cuda_sm91'"),
        (["mine/product"], "no target: add --target {cpu_avx2,"),
        (
            ["mine/product", "--target", "cuda_sm80", "--product", "H100"],
            "cuda_sm80 has no product 'H100': it has 'A100",
        ),
        (["mine/product", "--compare", "a", "b"], "--compare takes two files and no cases: leave out 'mine/product'"),
        (["--compare", "none.json", "none.json"], "none.json: No such file or directory: name a file that `estimate"),
        (["--compare", "test_mine.py", "test_mine.py"], "test_mine.py is not JSON"),
        (
            ["--compare", "bench.json", "bench.json"],
            "its format is 'conformance bench 1', not 'conformance estimate 1'",
        ),
        (["--compare", "damaged.json", "damaged.json"], "damaged.json is damaged ('triton'): write it again"),
        (["--compare", "empty.json", "empty.json"], "the two files have no case with the same target and product"),
        (
            ["mine/product", "--target", "cuda_sm80", "--json", "pytest.ini/a.json"],
            "--json pytest.ini/a.json: cannot be written",
        ),
        (["mine/gpu", "--target", "cpu_avx2"], "cpu_avx2: mine/gpu is for cuda only"),
        (["mine/product", "--top", "-1"], "'-1' is no number of calls; write 0 or more"),
    ],
)
def test_wrong_input_has_one_message(mine, capsys, words, message):
    (mine / "bench.json").write_text('{"format": "conformance bench 1"}')
    (mine / "damaged.json").write_text(json.dumps({"format": FORMAT, "about": {"torch": "2"}, "estimates": []}))
    Report(ABOUT).write(mine / "empty.json")
    try:
        status = main(["estimate", *words])
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert message in capsys.readouterr().err
