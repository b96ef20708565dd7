"""Known failures in a run: entries that excuse, that do not, that are stale or malformed, or name unknown cases."""

from __future__ import annotations

import pytest
from suites import ALL_CALLS, SM90
from suites import PreloadedSuite as Suite

CASES = """
from conformance import case, tensor

def declared(**require):
    return case(x=tensor(20), require={"all": require})

@declared(kernels=2)
def test_known(x):
    return x * 2

@declared(kernels=2)
def test_another(x):
    return x * 2

@declared(kernels=1)
def test_passes(x):
    return x * 2

@declared()
def test_refuses(x):
    raise ValueError("not today")

@declared()
def test_compiles(x):
    return x * 2
"""

SPOILING = """
from pathlib import Path

def test_spoiling():
    Path(__file__).parent.joinpath("known_failures/all.toml").write_text("[[fai")
"""


def entry(name: str, check: str, error: str, *, torch: str = ">=2.11") -> str:
    return (
        f'[[failure]]\ncase = "known/{name}"\ncheck = "{check}"\ntarget = "cuda_sm90"\ntorch = "{torch}"\n'
        f'error = "{error}"\nreason = "because of {name}"\nissue = "not reported"\n'
    )


def wrong_numerics(name: str, **change: str) -> str:
    """An entry for outputs that are off by 1."""
    table = {
        "call": ALL_CALLS,
        "tensor": '"output"',
        "rule": '"values"',
        "changes": '["0 → number", "-0 → number", "number → 0", "number → number"]',
        "off_by": "1.1",
    }
    problem = ", ".join(f"{key} = {value}" for key, value in (table | change).items())
    return entry(name, "numerics", "x").replace('error = "x"', f"problems = [{{ {problem} }}]")


@pytest.fixture
def suite(tmp_path) -> Suite:
    project = Suite(tmp_path)
    project.write("ops/test_known.py", CASES)
    return project


@pytest.mark.long("it runs several pytest processes, one after the other")
@pytest.mark.parametrize("check", ["compile", "requirements"])
def test_what_an_entry_leaves_out_does_not_run_and_is_named(suite, check):
    suite.write(
        "ops/test_known.py", CASES.replace('ValueError("not today")', "SystemExit(3)") if check == "compile" else CASES
    )
    name = {"compile": "refuses", "requirements": "another"}[check]
    left_out = entry(name, check, "whatever", torch=">=2.11,<99") + "run = false\n"
    suite.write("ops/known_failures/all.toml", left_out)
    ran, found = suite.checks(*SM90, "--checks", "requirements", "-k", f"passes or {name}")
    ran.ends(0).has_not("matched nothing")
    messages = [message for _, test, outcome, message in found if test.startswith(f"test_{name}[")]
    assert messages == [f"not run: because of {name} (not reported)"]


def test_what_entries_excuse(suite):
    entries = [
        entry("known", "requirements", "kernels: wanted 2, got 1"),
        entry("another", "requirements", "kernels: wanted 2, got 3"),
        entry("passes", "requirements", "kernels"),
        entry("refuses", "compile", "not today"),
        entry("compiles", "compile", "anything"),
    ]
    suite.write("ops/known_failures/all.toml", "\n".join(entries))
    ran, found = suite.checks(*SM90, "--checks", "requirements")
    ran.ends(1)
    outcomes = {name.partition("[")[0]: (outcome, message) for _, name, outcome, message in found}
    assert outcomes["test_known"] == ("skipped", "because of known (not reported)")
    assert outcomes["test_another"][0] == "failure"
    assert outcomes["test_refuses"] == ("skipped", "because of refuses (not reported)")
    assert outcomes["test_compiles"][0] == "passed"
    ran.has("known/passes on cuda_sm90 passes requirements on torch", "remove the entry")
    ran.has("`python -m conformance docs public-names#file-formats`")
    unused = ran.lines("known failure: ")
    assert [line.partition(": matched")[0] for line in unused] == [
        "known failure: all.toml, failure 2",
        "known failure: all.toml, failure 5",
    ]
    ran.has_not("Traceback", "item.py:")


@pytest.mark.parametrize("workers", [0, 2])
def test_malformed(suite, workers):
    suite.write("ops/known_failures/all.toml", '[[failure]]\ncase = "known/known"\n')
    for chosen in ((), ("-k", "known")):
        ran = suite.run(*SM90, *chosen, "-n", str(workers))
        assert ran.status in (1, 4)
        ran.has("all.toml, failure 1: 'check' is missing; the keys are case, check, target")
        ran.has_not("Traceback", "INTERNALERROR", "known_failures.py:")


def test_malformed_since_the_run_began(suite):
    """The summary still has the results, and the texts are accepted."""
    suite.write("ops/known_failures/all.toml", "")
    suite.write("ops/test_spoiling.py", SPOILING)
    ran = suite.accept(*SM90, "-k", "compiles or spoiling").ends(1)
    assert "known/compiles.txt" in suite.stored()
    ran.has("1 item: 1 deviceless", "1 new, ", "known failure: all.toml is not valid TOML: ")
    ran.has_not("Traceback", "INTERNALERROR", "known_failures.py:")
    suite.run(*SM90, "-k", "compiles").ends(4).has("ERROR: all.toml is not valid TOML: ")


def test_impossible(suite):
    suite.write("ops/known_failures/all.toml", entry("knwon", "code", "x"))
    suite.run("--collect-only").ends(4).has("there is no case 'known/knwon'; did you mean 'known/known'?")
    suite.run("--collect-only", "ops/test_known.py").ends(0)  # the case may be in a file that was not asked for


COMBINED = """
import torch
from conformance import case, tensor

@case(x=tensor(20), dtype=["f32", "f16"], more={"static": False, "dynamic": True}, vary="one_at_a_time")
def test_both(x, more):
    return x + (torch.compiler.is_compiling() and x.dtype == torch.float16 and more)
"""


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_of_combined_cases(suite):
    """Without --thorough, an entry may name a combined case, and need not excuse anything."""
    suite.write("ops/test_known.py", COMBINED)
    wrong = wrong_numerics("both-f16-dynamic")
    suite.write("ops/known_failures/all.toml", wrong)
    about = (*SM90, "--checks", "numerics")
    suite.run(*about).ends(0).has_not("known failure: ")
    ran, found = suite.checks(*about, "--thorough")
    ran.ends(0)
    assert ("skipped", "because of both-f16-dynamic (not reported)") in [tuple(each[2:]) for each in found]
    suite.write("ops/known_failures/all.toml", wrong_numerics("both-f16-dynamik"))
    suite.run(*about).ends(4).has("there is no case 'known/both-f16-dynamik'; did you mean 'known/both-f16-dynamic'?")


OFF = """
import torch
from conformance import case, tensor

@case(x=tensor(20), require={"all": {"kernels": 1}})
def test_off(x):
    return x + torch.compiler.is_compiling(), x * 2
"""


def test_an_entry_excuses_the_problems_that_it_names(suite):
    suite.write("ops/test_known.py", OFF)
    suite.write("ops/known_failures/all.toml", wrong_numerics("off", tensor='"output[0]"'))
    about = (*SM90, "--checks", "numerics")
    ran, found = suite.checks(*about)
    ran.ends(0)
    assert ("skipped", "because of off (not reported)") in [tuple(each[2:]) for each in found]
    suite.write("ops/test_known.py", OFF.replace("x * 2", "x * 2 + torch.compiler.is_compiling()"))
    ran = suite.run(*about).ends(1)
    ran.has(
        "known failures name 13 of 26 problems, and not these:", "  first: output[1]: values (20 × number → number, off"
    )
    suite.write("ops/known_failures/all.toml", wrong_numerics("off", tensor='"output[0]"', off_by="0.9"))
    suite.run(*about).ends(1).has("compiled disagrees with eager")


def test_an_entry_whose_problems_do_not_occur_beside_one_whose_do(suite):
    suite.write("ops/test_known.py", OFF)
    entries = [wrong_numerics("off", tensor='"output[0]"'), wrong_numerics("off", tensor='"output[1]"')]
    suite.write("ops/known_failures/all.toml", "".join(entries))
    ran = suite.run(*SM90, "--checks", "numerics").ends(1)
    ran.has("all.toml, failure 2: known/off on cuda_sm90 has no problem that the entry names on torch")


def test_matchers_of_every_failure_are_refused(suite):
    for error in ("compiled disagrees", "BackendCompilerFailed", "output: strides are", "Set TORCHDYNAMO_VERBOSE=1"):
        suite.write("ops/known_failures/all.toml", entry("known", "numerics", error))
        suite.run("--collect-only", "ops/test_known.py").ends(4).has(f"error '{error}' excuses more than one bug")


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_a_comparison_that_cannot_fail(suite):
    constant = OFF.replace("x + torch.compiler.is_compiling(), x * 2", "torch.ones_like(x), x * 2")
    suite.write("ops/test_known.py", constant)
    about = (*SM90, "--checks", "numerics")
    suite.run(*about).ends(1).has("output[0]: every element is 1.0 in every call, so no error could be found")
    declared = """require={"all": {"kernels": 1}}, numerics={"fill": {"output[0]": "it is ones"}}"""
    suite.write("ops/test_known.py", constant.replace("""require={"all": {"kernels": 1}}""", declared))
    suite.run(*about).ends(0)
    suite.write(
        "ops/test_known.py", constant.replace("""require={"all": {"kernels": 1}}""", declared.replace("0", "1"))
    )
    suite.run(*about).ends(1).has("numerics['fill'] names 'output[1]', in which an error can be found; leave it out")


def test_entries_that_were_written_beside_the_cases_are_read_once(suite):
    """The folder of the cases is also that of both options, in whatever spelling."""
    folder = suite.root / "ops/known_failures"
    options = (*SM90, "--checks", "requirements")
    ran = suite.run(*options, "--write-known-failures", "ops/known_failures").ends(1)
    ran.has("written to", "the next run takes them from there: the folder belongs to the cases")
    for place in (("ops/known_failures",), ("ops/../ops/known_failures", f"{folder}/")):
        ran = suite.run(*options, *(word for each in place for word in ("--known-failures", each))).ends(0)
        ran.has("3 known", "failures excused: 3 by entries in ").has_not("repeats")
    suite.run(*options, "--write-known-failures", "ops/known_failures").ends(0).has("nothing to write to")


@pytest.mark.parametrize("workers", [(), ("-n", "1"), ("--continue-on-collection-errors",)])
def test_a_file_that_cannot_be_imported_is_the_error(suite, workers):
    """Nobody knows which cases it has, so an entry for one of them is not wrong."""
    suite.write(
        "ops/known_failures/mine.toml", entry("known", "requirements", "boom: planted").replace("known/", "gone/")
    )
    suite.write("ops/test_gone.py", "import no_such_package\n")
    suite.write("mine.txt", "gone/known\nknown/passes\n")
    words = ("ops", *SM90, "--checks", "requirements", "-k", "passes", "--subset", "mine.txt", *workers)
    ran = suite.run(*words)
    ran.has("No module named 'no_such_package'").has_not("there is no case", "names no case")
    assert ran.status != 0
    suite.write("ops/test_gone.py", "")
    suite.run("ops", *SM90).has("there is no case 'gone/known'")


LOSS = """
import torch.nn.functional as F
from conformance import case, tensor

@case(x=tensor(6, 5), y=tensor(6, dtype="i64", low=0, high=5))
def test_loss(x, y):
    return F.cross_entropy(x, y)
"""


def test_a_known_cause_is_named_and_can_be_taken(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_it.py", LOSS)
    numerics = (*SM90, "--checks", "numerics")
    suite.run(*numerics).ends(1).has(
        "known cause: compiled takes inputs that eager refuses (https://github.com/pytorch/pytorch/issues/198155; "
        "right: eager); `--known-failures refusals` takes it for all cases"
    )
    suite.run(*numerics, "--known-failures", "refusals").ends(0).has("1 known failure")
    suite.run(*numerics, "--known-failures", "convolution_strides").ends(1)
    suite.run(*numerics, "--known-failures", "refusal").ends(4).has("convolution_strides, refusals")
