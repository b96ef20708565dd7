"""--inductor-config: other options of Inductor for a whole run, of which nothing is stored."""

from __future__ import annotations

import json
import shlex

import pytest
from suites import SM90, PreloadedSuite

from conformance.cli.main import main
from conformance.cli.run_options import find_run
from conformance.report.columns import cells_of
from conformance.report.commands import item_commands, review_commands

CASES = """
from conformance import case, tensor

WHY = "the order in which a template adds decides what overflows"

@case(x=tensor(20), y=tensor(30), require={"all": {"kernels": 2}})
def test_two(x, y):
    return x + 1, y * 2

@case(x=tensor(20), y=tensor(30), require={"all": {"kernels": 1}})
def test_one(x, y):
    return x - 1, y * 3

@case(a=tensor(64, 64), b=tensor(64, 64), numerics={"without": {"huge": WHY, "full_range": WHY}})
def test_product(a, b):
    return a @ b
"""
KNOWN = """
[[failure]]
case = "pairs/one"
check = "requirements"
target = "cuda_sm90"
torch = ">=2.11"
error = "requirements not met"
reason = "two kernels"
issue = "https://github.com/pytorch/pytorch/issues/1"
"""
COMBO = "--inductor-config combo_kernels=True"
PAIRS = (*SM90, "-k", "two or one", "--checks", "requirements,code")


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    made = PreloadedSuite(tmp_path_factory.mktemp("configured"))
    made.write("ops/test_pairs.py", CASES)
    made.write("ops/known_failures/pairs.toml", KNOWN)
    made.accept(*PAIRS, "--save-run", "before").ends(0).has("2 items = 1 passed + 1 known failures")
    return made


def test_what_the_options_change(suite, monkeypatch, capsys):
    ran = suite.run(*PAIRS, *COMBO.split(), "--baseline", "before", "--save-run", "combo").ends(1)
    ran.has(f"conformance: each case is compiled with {COMBO}", f"compiled with {COMBO}, over the case's own options")
    ran.has("requirements failed: pairs/two-cuda_sm90", "2 texts of 2 cases differ from run before by 1 cause")
    ran.has(f"1 known failure did not occur with {COMBO}: pairs/one-cuda_sm90").has_not("was not compared")
    run = suite.root / ".conformance/runs/combo"
    description = json.loads((run / "run.json").read_text())
    assert description["inductor_config"] == {"combo_kernels": True}
    options = {"checks": "requirements,code", "baseline": "before", "inductor-config": ["combo_kernels=True"]}
    assert description["options"] == options

    monkeypatch.chdir(suite.root)
    for words in (["accept", "combo"], ["review", "combo", "--list"]):
        assert main(words) == 2
        assert f"this run had {COMBO}, so its code is neither stored nor compared" in capsys.readouterr().err
    assert main(["merge", "before", "combo", "-o", "both"]) == 2
    assert "different --inductor-config (combo_kernels=True, none)" in capsys.readouterr().err
    assert main(["report", "before", "combo"]) == 2


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_each_command_of_a_report_gives_what_the_run_gave(suite, monkeypatch, capsys):
    suite.run(*PAIRS, *COMBO.split(), "--baseline", "before", "--save-run", "again").ends(1)
    monkeypatch.chdir(suite.root)
    run = find_run("again")
    cells = {cell.case: cell for cell in cells_of([run]).cells.values()}
    commands = item_commands(cells["pairs/two"], run.description())
    assert list(commands) == ["Run it", "Explain its kernels"]
    once_more = suite.run(*shlex.split(commands["Run it"])[1:]).ends(1)
    once_more.has("requirements failed: pairs/two-cuda_sm90", "1 text of 1 case differs from run before by 1 cause")
    assert "--config combo_kernels=True" in commands["Explain its kernels"]
    assert main(shlex.split(commands["Explain its kernels"])[3:]) == 0
    assert "pairs-two.html: " in capsys.readouterr().out
    (review,) = review_commands([run])
    assert main([*shlex.split(review)[3:], "--list"]) == 0
    assert "differ from run before by 1 cause" in capsys.readouterr().out


def test_nothing_is_compared_with_stored_code(suite):
    stored = suite.stored()
    ran = suite.run(*PAIRS, "-rs", "--inductor-config", "triton.persistent_reductions=False,cpp.threads=1").ends(0)
    given = "--inductor-config triton.persistent_reductions=False,cpp.threads=1"
    ran.has(f"code of 2 items was not compared: {given}", f"not compared: {given}")
    ran.has("2 items = 1 passed + 1 known failures")
    refused = suite.accept(*PAIRS, *COMBO.split()).ends(pytest.ExitCode.USAGE_ERROR)
    refused.has(f"EXPECTTEST_ACCEPT would store code of {COMBO}")
    assert suite.stored() == stored


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_max_autotune_takes_the_first_template(suite):
    """Without a GPU, so nothing can be timed."""
    found = ("--checks", "numerics,code", "-k", "product", *SM90, "--save-run", "template")
    suite.run(*found, "--inductor-config", "max_autotune=True").ends(0).has("numerics passed: 1 emulated")
    record = json.loads((suite.root / ".conformance/runs/template/items/pairs/product-cuda_sm90.json").read_text())
    assert "tl.dot" in record["text"]
    assert "extern_kernels.mm" not in record["text"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--inductor-config", "combo_kernel=True"], "torch has no option 'combo_kernel'; nearest: combo_kernels"),
        (["--inductor-config", "combo_kernels=1"], "combo_kernels takes True or False, and 1 is a whole number"),
        (["--inductor-config", "fx_graph_cache=True"], "the suite sets fx_graph_cache itself"),
        ([*COMBO.split(), "--audit"], f"--audit cannot be combined with {COMBO}"),
        ([*COMBO.split(), "--backend", "aot_eager"], "another backend has no options of Inductor"),
    ],
)
def test_refused(suite, options, message):
    suite.run(*PAIRS, *options).ends(pytest.ExitCode.USAGE_ERROR).has(message)
