"""EXPECTTEST_ACCEPT: when pytest accepts, which counts it prints, and what is on disk afterwards."""

from __future__ import annotations

import pytest
from suites import NATIVE, SCALE, SM90
from suites import PreloadedSuite as Suite

from conformance.devices.torch_releases import STRICT
from conformance.settings import parse_accept
from conformance.storage.snapshots import Store

WRONG = '''
pytest_plugins = ["conformance.plugin"]

def pytest_collection_modifyitems():
    """Inductor's lowering of mul adds one."""
    import torch
    from torch._inductor import lowering
    before = lowering.lowerings[torch.ops.aten.mul.Tensor]
    add = lowering.lowerings[torch.ops.aten.add.Tensor]
    lowering.lowerings[torch.ops.aten.mul.Tensor] = lambda a, b: add(before(a, b), 1)
'''


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(None, ""), ("", ""), ("0", ""), ("false", ""), ("False", ""), ("1", "all"), ("true", "all"), ("new", "new")],
)
def test_what_the_variable_means(value, wanted):
    assert parse_accept({} if value is None else {"EXPECTTEST_ACCEPT": value}) == wanted


def test_does_not_accept(accepted):
    file = accepted.root / "ops/expected_code/scale/double-f32.txt"
    file.unlink()
    before = accepted.stored()
    ran = accepted.run(*SM90, "-k", "f32", env={"EXPECTTEST_ACCEPT": "0"}).ends(1)
    ran.has_not("snapshots:")
    ran.has("1 case has no stored code yet (scale/double-f32): EXPECTTEST_ACCEPT=new pytest")
    assert accepted.stored() == before


def test_accepts_what_it_says(accepted):
    first = accepted.stored()
    assert list(first) == ["scale/double-f16.txt", "scale/double-f32.txt"]
    accepted.accept(*SM90, "-n", "2").ends(0).has("snapshots: 0 new, 0 changed, 2 unchanged")
    assert accepted.stored() == first

    changed = accepted.write("ops/expected_code/scale/double-f16.txt", first["scale/double-f16.txt"] + "# other\n")
    ran = accepted.accept("--target", "cuda_sm90,cuda_sm80", "-n", "2").ends(0)
    ran.has("snapshots: 2 new, 1 changed, 1 unchanged")
    second = accepted.stored()
    assert all(text.startswith("== torch 2.") and ": cuda_sm80 cuda_sm90\n" in text for text in second.values())
    assert "# other" not in changed.read_text()


def test_new_adds_only(accepted):
    changed = accepted.write(
        "ops/expected_code/scale/double-f16.txt",
        accepted.stored()["scale/double-f16.txt"].replace("1: mul", "2: mul"),
    )
    store = Store(changed.parent.parent)
    before = store.read("scale/double-f16").text(STRICT, "cuda_sm90")
    ran = accepted.run("--target", "cuda_sm90,xpu_bmg", env={"EXPECTTEST_ACCEPT": "new"}).ends(1)
    ran.has("snapshots: 2 new, 0 changed, 0 unchanged", "scale/double-f16-cuda_sm90: ")
    assert store.read("scale/double-f16").text(STRICT, "cuda_sm90") == before


def test_refused_in_ci(accepted):
    before = accepted.stored()
    ran = accepted.run(*SM90, env={"EXPECTTEST_ACCEPT": "1", "CI": "true"}).ends(4)
    ran.has("EXPECTTEST_ACCEPT is set in CI")
    ran.has_not("Traceback")
    accepted.run(*SM90, env={"EXPECTTEST_ACCEPT": "perhaps"}).ends(4).has("'perhaps' is not known: 1 accepts all")
    assert accepted.stored() == before


def test_nothing_is_accepted_whose_numerics_fail(suite):
    suite.write("conftest.py", WRONG)
    ran = suite.accept("--target", f"{NATIVE},cuda_sm90", "-k", "f32").ends(1)
    ran.has(*(f"not accepted: scale/double-f32-{target}: its numerics fail" for target in (NATIVE, "cuda_sm90")))
    assert suite.stored() == {}

    ran = suite.accept("--target", f"{NATIVE},cuda_sm90", "-k", "f32", "--no-emulation").ends(1)
    ran.has(f"not accepted: scale/double-f32-{NATIVE}: its numerics fail", "snapshots: 1 new, 0 changed, 0 unchanged")
    [text] = suite.stored().values()
    assert NATIVE not in text


def test_expected_code_that_cannot_be_written(suite):
    suite.write("ops/expected_code", "a file where the folder would be")
    ran = suite.accept(*SM90).ends(1)
    ran.has("not accepted: ", "expected_code: cannot be written to, nothing was stored")
    ran.has_not("Traceback", "INTERNALERROR")


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
@pytest.mark.parametrize("damage", ["conflict", "header"])
def test_damaged_snapshot(accepted: Suite, damage):
    name = "ops/expected_code/scale/double-f16.txt"
    good = (accepted.root / name).read_text()
    conflict = f"<<<<<<< ours\n{good}=======\n{good}>>>>>>> theirs\n"
    texts = {"conflict": conflict, "header": good.replace("== torch", "== tor")}
    messages = {"conflict": f"{name}:1: unresolved merge conflict", "header": f"{name}:1: unreadable header"}
    accepted.write(name, texts[damage])
    accepted.write("ops/expected_code/scale/double-f32.txt", "")
    ran, found = accepted.checks(*SM90)
    ran.ends(1).has(messages[damage], "1 case has no stored code yet (scale/double-f32)")
    ran.has_not("Traceback", "snapshots.py:")
    assert [outcome for _, _, outcome, _ in found] == ["passed", "passed", "failure"] * 2

    ran = accepted.accept(*SM90).ends(1)
    ran.has(f"not accepted: {accepted.root / name}:1: ", "snapshots: 1 new, 0 changed, 0 unchanged")
    assert (accepted.root / name).read_text() == texts[damage]


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.long("its worker is a process that imports torch"))]
)
def test_the_first_run_of_a_project_has_one_line_for_all_cases_without_code(suite, workers):
    """It fails, because nothing was compared; what is wrong besides is shown as ever."""
    wrong = SCALE.replace("test_double", "test_wrong").replace('{"kernels": 1}', '{"kernels": 2}')
    suite.write("ops/test_wrong.py", wrong)
    ran = suite.run(*SM90, "--checks", "requirements,code", "-k", "double", *workers).ends(1)
    ran.has(
        "2 cases have no stored code yet (scale/double-f16, scale/double-f32): EXPECTTEST_ACCEPT=new pytest",
        "2 items = 2 failed",
    )
    ran.has_not("FAILURES", "short test summary", "accept it with", "reproduce.py", "artifacts:")
    ran = suite.run(*SM90, "--checks", "requirements,code", *workers).ends(1)
    ran.has("4 cases have no stored code yet", "kernels: wanted 2, got 1", "requirements failed: wrong/wrong-f16")
    ran.has_not("nothing is stored", "next: run reproduce.py")
    ran = suite.run(*SM90, "--checks", "code", "-k", "double and f16", "-v", *workers).ends(1)
    ran.has("accept it with: EXPECTTEST_ACCEPT=1 pytest 'ops/test_scale.py::test_double[f16-cuda_sm90]'")
    suite.run(*SM90, "-k", "double", env={"EXPECTTEST_ACCEPT": "new"}).ends(0).has("snapshots: 2 new")
