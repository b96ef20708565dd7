"""--audit: which opt-outs it reports as idle, needed and not judged, and how the run ends."""

from __future__ import annotations

import json

import pytest
from suites import NATIVE, SM90
from suites import PreloadedSuite as Suite

from conformance.cli.main import main

#: The opt-out of `keeps` is idle, that of `drops` is needed.
CASES = """
import torch
from conformance import case, tensor

def compiling():
    return torch.compiler.is_compiling()

@case(x=tensor(20), numerics={"without": {"nan": "the order decides"}})
def test_keeps(x):
    return x * 2

@case(x=tensor(20), numerics={"without": {"nan": "NaN is replaced"}})
def test_drops(x):
    return torch.nan_to_num(x, 0, torch.inf, -torch.inf) if compiling() else x * 1

@case(x=tensor(20))
def test_has_none(x):
    return x * 2
"""

#: Opt-outs of all kinds. Those of the functions named `idle` excuse nothing.
KINDS = """
import torch
from conformance import case, tensor

def compiling():
    return torch.compiler.is_compiling()

@case(x=tensor(20), numerics={"factor": 1000, "reason": "measured 84 ulp"})
def test_factor(x):
    return x.exp() * (1 + 1e-5) if compiling() else x.exp()

@case(x=tensor(20), numerics={"factor": 5, "reason": "a habit"})
def test_idle_factor(x):
    return x * 2

@case(x=tensor(20), numerics={"reference": "eager", "reason": "float64 has other bits"})
def test_reference(x):
    return (x.view(torch.int32) + 1).float()

@case(x=tensor(20), numerics={"reference": "eager", "reason": "a habit"})
def test_idle_reference(x):
    return x * 2

@case(x=tensor(20), numerics={"fill": {"output[1]": "it is zeros_like(x)"}})
def test_fill(x):
    return x * 2, torch.zeros_like(x)

@case(x=tensor(20), dynamic=True, numerics={"recompiles": 1, "reason": "a branch"})
def test_recompiles(x):
    return x * 2 if x.shape[0] > 20 else x * 3

@case(x=tensor(20), numerics={"recompiles": 1, "reason": "a habit"})
def test_idle_recompiles(x):
    return x * 2

@case(x=tensor(20), y=tensor(20), numerics={"without": {"y": "only x counts"}})
def test_idle_input(x, y):
    return x * y

@case(x=tensor(20), y=tensor(20), numerics={"without": {"y": "only x counts"}})
def test_input(x, y):
    return x * torch.nan_to_num(y, 0, torch.inf, -torch.inf) if compiling() else x * y

@case(x=tensor(20), numerics={"without": {"huge": "on a device, it overflows earlier"}})
def test_on_device(x):
    return x * 2
"""

TARGETS = """
import torch
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f64"]), numerics={"for": {"all": {"without": {"nan": "cuda replaces NaN"}}}})
def test_drops(x):
    if torch.compiler.is_compiling() and x.device.type == "cuda" and x.dtype == torch.float32:
        return torch.nan_to_num(x, 0, torch.inf, -torch.inf)
    return x * 1
"""

#: In all calls, compiled is off by 1.
KNOWN = """
from conformance import case, tensor
import torch

@case(x=tensor(20), numerics={"without": {"nan": "a reason"}})
def test_off(x):
    return x + 1 if torch.compiler.is_compiling() else x + 0
"""
ENTRY = """
[[failure]]
case = "known/off"
check = "numerics"
target = "cuda_sm90"
torch = ">=2.11"
problems = [
  { call = ["first", "second", "nan", "inf", "huge", "denormals", "edges", "ties", "negative",\
 "positive", "far", "exponents", "full_range"], tensor = "output", rule = "values",\
 changes = ["0 → number", "-0 → number", "number → 0", "number → number"], off_by = 1.1 },
]
reason = "it is off by 1"
issue = "not reported"
"""

NAN = 'numerics["without"]["nan"]'


@pytest.fixture
def suite(tmp_path) -> Suite:
    project = Suite(tmp_path)
    project.write("ops/test_audited.py", CASES)
    return project


def audit_of(suite: Suite) -> dict[str, dict]:
    """`function declaration` → what the run's JSON says."""
    data = json.loads((suite.root / ".conformance/runs/last/audit.json").read_text())
    return {f"{each['function']} {each['declaration']}": each for each in data["declarations"]}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_idle_opt_outs_fail_the_run_and_needed_ones_do_not(suite, workers):
    ran = suite.run(*SM90, "--audit", "-n", workers).ends(1)
    ran.has(
        "audit of opt-outs (emulated: cuda_sm90): 2 declarations; over all cases 1 needed, 1 idle, 0 not judged",
        f"ops/test_audited.py test_drops  {NAN}: needed on cuda_sm90 (1 case: output values NaN → 0)",
        "audit failed, because these opt-outs excuse nothing",
        f"ops/test_audited.py test_keeps  {NAN}: idle, tried on cuda_sm90",
        "2 items = 2 passed",
    )
    found = audit_of(suite)
    assert (found[f"test_keeps {NAN}"]["idle"], found[f"test_keeps {NAN}"]["needed"]) == ([""], [])
    entry = found[f"test_drops {NAN}"]["cases"][""]["cuda_sm90"]
    assert (entry["verdict"], entry["how"], entry["excuses"][0]["changes"]) == ("needed", "emulated", ["NaN → 0"])


def test_needed_opt_outs_alone(suite):
    suite.run(*SM90, "--audit", "-k", "drops").ends(0).has("1 needed, 0 idle").has_not("audit failed")


def test_each_kind_of_opt_out(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_kinds.py", KINDS)
    ran = suite.run(*SM90, "--audit").ends(1).has("not judged:", "only a run on the device can judge it")
    ran.has("needed on cuda_sm90 (1 case: recompiles: 2 <= x.size()[0] <= 20 at `")
    found = audit_of(suite)
    assert {name.split()[0] for name, each in found.items() if each["idle"]} == {
        "test_idle_factor",
        "test_idle_reference",
        "test_idle_recompiles",
        "test_idle_input",
    }
    excused = {
        name: {problem["rule"] for problem in entry["excuses"]}
        for name, each in found.items()
        for entry in each["cases"][""].values()
        if entry["verdict"] == "needed"
    }
    assert excused == {
        'test_factor numerics["factor"]': {"values"},
        'test_reference numerics["reference"]': {"reference"},
        'test_fill numerics["fill"]["output[1]"]': {"nothing compared"},
        'test_input numerics["without"]["y"]': {"values"},
        'test_recompiles numerics["recompiles"]': {"recompiles"},
    }


@pytest.mark.skipif(not NATIVE, reason="no cpu target is native")
def test_an_opt_out_that_one_target_needs_is_not_idle(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_targets.py", TARGETS)
    ran = suite.run("--target", f"cuda_sm90,{NATIVE}", "--audit").ends(0)
    title = 'ops/test_targets.py test_drops  numerics["for"]["all"]["without"]["nan"]'
    ran.has(
        f"audit of opt-outs (native: {NATIVE}; emulated: cuda_sm90): 1 declaration; over all cases 1 needed, 1 idle",
        f"{title}: needed on cuda_sm90 (1 of 2 cases: output values NaN → 0), idle on {NATIVE}",
        "idle for some cases; they may be needed on another torch or device, or with other values (--seed):",
        f"{title}: idle for 1 of 2 cases (f64), tried on {NATIVE}, cuda_sm90",
    ).has_not("audit failed")


def test_what_known_failures_excuse_does_not_count(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_known.py", KNOWN)
    suite.write("ops/known_failures/all.toml", ENTRY)
    suite.run(*SM90, "--audit").ends(1).has(f"test_off  {NAN}: idle, tried on cuda_sm90", "1 item = 1 known failures")


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_the_store_of_what_passed_is_not_written_or_read(suite):
    for _ in range(2):
        suite.run(*SM90, "--audit", "-k", "drops").ends(0).has("numerics passed: 1 emulated").has_not("passed before")
    suite.run(*SM90, "--checks", "numerics", "-k", "drops").ends(0).has_not("passed before")
    suite.run(*SM90, "--audit", "-k", "drops").ends(0).has("numerics passed: 1 emulated").has_not("passed before")


#: Which of the two opt-outs is needed depends on the values that are drawn.
DRAWN = """
import torch
from conformance import case, tensor
from conformance.cases import run_values

def compiling():
    return torch.compiler.is_compiling()

@case(x=tensor(20), numerics={"without": {"nan": "NaN is replaced"}})
def test_sometimes(x):
    return torch.nan_to_num(x, 0, torch.inf, -torch.inf) if compiling() and run_values.current().seed == 2 else x * 1

@case(x=tensor(20), numerics={"without": {"nan": "a library never ends"}})
def test_hangs(x):
    return torch.nan_to_num(x, 0, torch.inf, -torch.inf) if compiling() else x * 1

@case(x=tensor(20), numerics={"without": {"nan": "which NaN is returned differs between runs"}})
def test_varies(x):
    return torch.nan_to_num(x, 0, torch.inf, -torch.inf) if compiling() and run_values.current().seed == 2 else x * 1
"""


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_several_runs_are_joined(suite, monkeypatch, capsys):
    suite.write("ops/test_audited.py", DRAWN)
    suite.run(*SM90, "--audit", "--save-run", "one").ends(1).has(f"test_sometimes  {NAN}: idle")
    suite.run(*SM90, "--audit", "--seed", "2", "--save-run", "two").ends(0).has(f"test_sometimes  {NAN}: needed")
    monkeypatch.chdir(suite.root)

    def joined(status, *runs):
        assert main(["report", "--audit", *runs]) == status
        printed = capsys.readouterr()
        return printed.out + printed.err

    assert f"test_sometimes  {NAN}: idle" in joined(1, "one")
    text = joined(0, "one", ".conformance/runs/two/audit.json")
    assert f"test_sometimes  {NAN}: needed on cuda_sm90" in text
    assert "its reason says that the case never ends without it" in text
    assert "the result differs between runs, and in this run it was right" in joined(1, "one")
    assert f"test_varies  {NAN}: needed on cuda_sm90" in text
    assert "there is no run 'three'; existing runs: last, one, two" in joined(2, "three")
    assert "there is no ops/three.json; a run with --audit writes it" in joined(2, "ops/three.json")
    suite.write("ops/wrong.json", "{}")
    assert "is no audit of this version of the suite" in joined(2, "ops/wrong.json")


def test_nothing_to_audit(suite):
    suite.write("ops/test_audited.py", "from conformance import case, tensor\n\n" + CASES.rpartition("\n\n")[2])
    suite.run(*SM90, "--audit").ends(5).has("--audit: no selected case opts out of anything")


@pytest.mark.parametrize(
    ("options", "env", "named"),
    [
        (["--checks", "code"], {}, "--checks code"),
        (["--checks", "numerics,code"], {}, "--checks numerics,code"),
        (["--backend", "aot_eager"], {}, "--backend aot_eager"),
        (["--via", "export", "--fail-on-drift"], {}, "--via export and --fail-on-drift"),
        ([], {"EXPECTTEST_ACCEPT": "1"}, "EXPECTTEST_ACCEPT=all"),
    ],
)
def test_bad_combinations(suite, options, env, named):
    ran = suite.run(*SM90, "--audit", *options, env=env).ends(4)
    ran.has(f"--audit judges the opt-outs of numerics and makes no other check: leave out {named}")
    ran.has_not("Traceback", "INTERNALERROR")
