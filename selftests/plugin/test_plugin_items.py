"""pytest collects one item for each case and target, compiles it once, and reports each check by itself."""

from __future__ import annotations

from collections import Counter

import pytest
from suites import NATIVE
from suites import PreloadedSuite as Suite

TARGETS = ("--target", f"{NATIVE},cuda_sm90")

COUNTED = """
from pathlib import Path
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]), require={"all": {"kernels": 1}})
def test_double(x):
    return x * 2

@case(x=tensor(20), require={"cuda": {"kernels": 2}})
def test_triple(x):
    return x * 3
"""

COUNTING = """
pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    import conformance.capture.compile as compiling
    from pathlib import Path
    before = compiling.Compilation.compile
    def counting(self):
        with Path("captures").open("a") as file:
            file.write(f"{self._request.target.name}\\n")
        return before(self)
    compiling.Compilation.compile = counting
"""


def entries(*outcomes: tuple[str, str, dict[str, str]]) -> list[tuple[str, str, str]]:
    return sorted((f"ops.test_scale.{check}", name, each[check]) for name, _, each in outcomes for check in each)


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_checks_compiles_and_junit(tmp_path):
    suite = Suite(tmp_path, COUNTING)
    suite.write("ops/test_scale.py", COUNTED)
    stored = {"requirements": "passed", "code": "failure"}
    emulated = stored | {"numerics (emulated)": "passed"}
    wanted = entries(
        *((f"test_double[{dtype}-{NATIVE}]", "", stored | {"numerics": "passed"}) for dtype in ("f32", "f16")),
        *((f"test_double[{dtype}-cuda_sm90]", "", emulated) for dtype in ("f32", "f16")),
        (f"test_triple[{NATIVE}]", "", stored | {"numerics": "passed"}),
        ("test_triple[cuda_sm90]", "", emulated | {"requirements": "failure"}),
    )
    ran, found = suite.checks(*TARGETS)
    ran.ends(1)
    assert sorted(each[:3] for each in found) == wanted
    assert not any(outcome == "skipped" for *_, outcome, _ in found)
    captures = (suite.root / "captures").read_text().split()
    # Each of the three items is compiled with three other inputs too, and the wrong one again for its artifacts.
    assert Counter(captures) == {NATIVE: 12, "cuda_sm90": 13}
    ran.has("kernels: wanted 2, got 1", "accepting snapshots never changes a requirement")
    ran.has(
        "6 items: 3 deviceless, 3 native", "numerics passed: 3 native, 3 emulated", "3 cases have no stored code yet"
    )

    again, with_workers = suite.checks(*TARGETS, "-n", "2")
    again.ends(1).has("6 items: 3 deviceless, 3 native")
    assert sorted(with_workers) == sorted(found)


def test_without_emulation(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", COUNTED)
    _, found = suite.checks("--target", "cuda_sm90", "--checks", "numerics", "--no-emulation", "-k", "f32")
    assert [each[0] for each in found] == ["ops.test_scale.numerics"]
    assert [each[2:] for each in found] == [
        ("skipped", "this machine has no cuda_sm90: its code was generated but not run (--no-emulation)")
    ]


def test_selected_checks_alone_are_run(suite):
    ran, found = suite.checks("--checks", "requirements", "--target", "cuda_sm90,xpu_bmg", "-k", "f32")
    ran.ends(0)
    assert [each[:3] for each in found] == [
        ("ops.test_scale.requirements", f"test_double[f32-{target}]", "passed") for target in ("cuda_sm90", "xpu_bmg")
    ]


def test_junit_of_what_is_no_check(suite):
    """JUnit XML of an item that does not compile, and of a test that is no case."""
    suite.write("ops/test_other.py", BROKEN)
    ran, found = suite.checks("--target", "cuda_sm90", "ops/test_other.py")
    ran.ends(1)
    assert [each[:3] for each in found] == [
        ("ops.test_other", "test_refuses[cuda_sm90]", "failure"),
        ("ops.test_other", "test_plain", "passed"),
    ]
    ran.has("this cannot be traced")


BROKEN = """
from conformance import case, tensor

@case(x=tensor(20))
def test_refuses(x):
    raise ValueError("this cannot be traced")

def test_plain():
    pass
"""
