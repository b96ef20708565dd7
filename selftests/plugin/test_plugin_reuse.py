"""Numerics that passed before are not run again, and nothing else is left out."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET  # reads our own file

import pytest
from suites import NATIVE, SM90, WRONG_OUTPUT, section
from suites import PreloadedSuite as Suite

from conformance.devices.cache_folder import cache_folder
from conformance.storage.passed_numerics import FOLDER

CASES = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]))
def test_double(x):
    return x * 2

@case(x=tensor(20))
def test_negative(x):
    return -x
"""

#: A plugin that changes Inductor as an engineer may have done: it generates wrong code for products.
WRONG_PRODUCT = """
def pytest_collection_modifyitems():
    import torch
    from torch._inductor import lowering
    aten = torch.ops.aten
    before, add = lowering.lowerings[aten.mul.Tensor], lowering.lowerings[aten.add.Tensor]
    lowering.lowerings[aten.mul.Tensor] = lambda a, b: add(before(a, b), 1)
"""

#: Numerics fail, without any change that the digest sees.
FLAKY = """
def pytest_collection_modifyitems():
    from conformance.numerics import check

    def fail(*arguments, **options):
        raise check.NumericsError("planted")

    check.check_numerics = fail
"""

#: Each call takes the largest blocks: one program for each kernel.
ONE_PROGRAM = """
def pytest_collection_modifyitems():
    from conformance.capture.emulation.configurations import Configurations

    Configurations.choose = lambda self, call, arguments: self.largest
"""

NUMERICS = (*SM90, "--checks", "numerics")
ALL_RUN = "numerics passed: 3 emulated"
ALL_PASSED_BEFORE = "numerics passed before and were not run: 3 items; --fresh runs them"


@pytest.fixture
def once(tmp_path):
    """A suite that ran once."""
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", CASES)
    suite.write("wrong_product.py", WRONG_PRODUCT)
    suite.run(*NUMERICS).ends(0).has(ALL_RUN).has_not("passed before")
    return suite


def records(suite: Suite) -> dict[str, dict]:
    """The items of the last run, by name."""
    files = (suite.root / ".conformance" / "runs" / "last" / "items").rglob("*.json")
    return {file.stem: json.loads(file.read_text()) for file in files}


@pytest.mark.long("it runs a project twice or more, and the later runs read what the first stored")
def test_kernels_that_ran_one_program_are_named_in_each_run(once):
    once.write("one_program.py", ONE_PROGRAM)
    for _ in range(2):
        ran = once.run(*NUMERICS, "--fresh", "-p", "one_program").ends(0)
        ran.has(f"{ALL_RUN} (3 of them with a kernel that ran only one program or only one iteration of a loop)")
        ran.has("ran little: scale/double-f32-cuda_sm90: triton_poi_fused_mul_0 ran one program for 20 elements")
    once.run(*NUMERICS).ends(0).has(ALL_RUN).has_not("passed before", "ran little")
    record = records(once)["double-f32-cuda_sm90"]
    assert (record["kernels"], record["shortfalls"]) == (["triton_poi_fused_mul_0: 3 programs"], [])


def test_a_second_run_says_what_passed_before_and_how(once):
    first = (once.root / ".conformance" / "runs" / "last").resolve().name
    ran, entries = once.checks(*SM90, "--checks", "requirements,numerics", "--strict-run", "-n", "2")
    ran.ends(0).has(ALL_PASSED_BEFORE).has_not("numerics passed:", "did not run")
    assert {kind.removeprefix("ops.test_scale.") for kind, *_ in entries} == {
        "numerics (passed before)",
        "requirements",
    }
    for record in records(once).values():
        assert record["evidence"] == "generated"
        assert record["reused"].startswith(f"numerics passed before: emulated, in the run {first} of 20")
        assert record["checks"]["numerics"] == {"outcome": "passed", "detail": record["reused"]}
    properties = [each.attrib for each in ET.parse(once.root / "junit.xml").getroot().iter("property")]  # noqa: S314
    passed = [each["value"] for each in properties if each["name"] == "conformance.numerics"]
    assert len(passed) == 3
    assert all(value.startswith(f"numerics passed before: emulated, in the run {first}") for value in passed)


@pytest.mark.long("it runs a project twice or more, and the later runs read what the first stored")
def test_fresh_runs_everything_and_renews_the_verdict(once):
    once.run(*NUMERICS, "--fresh", "--save-run", "fresh").ends(0).has(ALL_RUN).has_not("passed before")
    once.run(*NUMERICS).ends(0).has(ALL_PASSED_BEFORE)
    assert all("in the run fresh of" in record["reused"] for record in records(once).values())


def test_an_edit_of_inductor_runs_what_it_changes_and_finds_what_it_breaks(once):
    for _ in range(2):  # a failure is never stored
        ran = once.run(*NUMERICS, "-p", "wrong_product").ends(1)
        ran.has("numerics passed before and were not run: 1 item;", "disagrees with eager")
        assert {name for name, record in records(once).items() if record["reused"]} == {"negative-cuda_sm90"}
        assert len(ran.lines("SUBFAILED")) == 2
    once.run(*NUMERICS).ends(0).has(ALL_PASSED_BEFORE)


@pytest.mark.long("it runs a project twice or more, and the later runs read what the first stored")
def test_a_known_failure_is_never_stored(once):
    entry = f"""
[[failure]]
case = ["scale/double-f32", "scale/double-f16"]
check = "numerics"
target = "cuda_sm90"
torch = ">=2.11"
{WRONG_OUTPUT}
reason = "planted"
issue = "not reported"
"""
    once.write("ops/known_failures/scale.toml", entry)
    for _ in range(2):
        ran = once.run(*NUMERICS, "-p", "wrong_product").ends(0)
        ran.has("numerics passed before and were not run: 1 item;", "2 known failures")


@pytest.mark.long("it runs a project twice or more, and the later runs read what the first stored")
def test_a_stale_known_failure_is_found_though_numerics_passed_before(once):
    entry = f"""
[[failure]]
case = "scale/negative"
check = "numerics"
target = "cuda_sm90"
torch = ">=2.11"
{WRONG_OUTPUT}
reason = "mended"
issue = "not reported"
"""
    once.write("ops/known_failures/scale.toml", entry)
    for _ in range(2):
        ran = once.run(*NUMERICS).ends(1)
        ran.has("numerics passed before and were not run: 3 items;")
        assert section(ran, "test_negative[cuda_sm90] [numerics (passed before)]")
        assert records(once)["negative-cuda_sm90"]["checks"]["numerics"]["outcome"] == "stale"


@pytest.mark.long("it runs a project twice or more, and the later runs read what the first stored")
def test_a_verdict_of_a_flaky_result_is_withdrawn(once):
    once.write("flaky.py", FLAKY)
    ran = once.run(*NUMERICS, "--fresh", "-p", "flaky", "-k", "negative").ends(1)
    ran.has(
        "scale/negative-cuda_sm90: numerics passed before (emulated, in the run ", "and fail now with the same code"
    )
    once.run(*NUMERICS).ends(0).has("numerics passed: 1 emulated", "passed before and were not run: 2 items")


def test_a_changed_case_runs(once):
    file = once.root / "ops/test_scale.py"
    file.write_text(CASES.replace("return -x", "return -x  # changed"))
    once.run(*NUMERICS).ends(0).has(ALL_RUN).has_not("passed before")


def test_a_damaged_store_is_ignored(once):
    run = (once.root / ".conformance" / "runs" / "last").resolve().name
    # Bytes: the cache is the user's, and it may have a file that this test damaged in a run before.
    [file] = [path for path in (cache_folder() / FOLDER).glob("*.txt") if run.encode() in path.read_bytes()]
    try:
        file.write_bytes(file.read_bytes()[:-30] + b"\n\xff\xfe garbage\n")
        once.run(*NUMERICS).ends(0).has("numerics passed: 1 emulated", "passed before and were not run: 2 items")
    finally:
        file.unlink()


@pytest.mark.long("it runs a project twice or more, and the later runs read what the first stored")
def test_a_case_that_reads_a_file_always_runs(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/factor.txt", "2")
    reads = "from pathlib import Path\nFACTOR = int(Path(__file__).with_name('factor.txt').read_text())\n"
    suite.write("ops/test_scale.py", reads + CASES.replace("x * 2", "x * FACTOR"))
    for _ in range(2):
        suite.run(*NUMERICS).ends(0).has(ALL_RUN).has_not("passed before")


@pytest.mark.long("it runs a project twice or more, and the later runs read what the first stored")
@pytest.mark.skipif(not NATIVE, reason="this CPU has no instruction set of the table")
def test_native_numerics_are_not_run_again_with_the_same_threads(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", CASES)
    numerics = ("--target", NATIVE, "--checks", "numerics", "-k", "negative")
    suite.run(*numerics).ends(0).has("numerics passed: 1 native")
    suite.run(*numerics).ends(0).has("passed before and were not run: 1 item;")
    assert [record["reused"][:31] for record in records(suite).values()] == ["numerics passed before: native,"]
    threads = "def pytest_runtest_call():\n    import torch\n    torch.set_num_threads(torch.get_num_threads() + 1)\n"
    suite.write("threads.py", threads)
    suite.run(*numerics, "-p", "threads").ends(0).has("numerics passed: 1 native").has_not("passed before")


@pytest.mark.skipif(not NATIVE, reason="this CPU has no instruction set of the table")
def test_another_backend_always_runs(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", CASES)
    for _ in range(2):
        ran = suite.run("--backend", "aot_eager", "--target", NATIVE).ends(0)
        ran.has("numerics passed: 3 native").has_not("passed before")
