"""`accept` stores a run of another machine, or confirms stored code with it."""

from __future__ import annotations

import pytest
from suites import Suite

from conformance.cli.main import main
from conformance.storage.accept import accept_snapshots
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Snapshot, Store

F32, F16 = "scale/double-f32", "scale/double-f16"
TORCH = "2.13.0+cu130"
PASSED = CheckResult(Outcome.PASSED)
SAME, OTHER = "kernels     1: mul\n", "kernels     2: mul\n"


@pytest.fixture
def brought(suite: Suite) -> Run:
    """A run of a machine with the GPU, made in another checkout. One of its texts is stored here."""
    store(suite).merge({F32: {(TORCH, "cuda_sm90"): SAME, (TORCH, "cuda_sm80"): SAME}})
    run = Run(suite.root / "brought")
    run.begin({"torch": TORCH})
    for case, text in ((F32, SAME), (F16, OTHER)):
        run.write_item(record(case, text, deviceless=PASSED))
    return run


def store(suite: Suite) -> Store:
    return Store(suite.root / "ops" / "expected_code", ["cuda_sm80", "cuda_sm90"])


def record(case: str, text: str, mode: str = "native", target: str = "cuda_sm90", **checks: CheckResult) -> ItemRecord:
    return ItemRecord(
        case=case, target=target, mode=mode, torch=TORCH, store="/elsewhere/ops/expected_code", text=text, checks=checks
    )


def accepted(suite: Suite, *arguments: str) -> int:
    return main(["accept", str(suite.root / "brought"), str(suite.root / "ops"), *arguments])


def test_stored_where_the_case_is_here(suite, brought, capsys):
    assert accepted(suite) == 0
    out = capsys.readouterr().out
    assert out == "snapshots: 1 new, 0 changed, 1 unchanged\nconfirmed on the device: 2\n"
    assert "== torch 2.13: cuda_sm80 cuda_sm90 (confirmed: cuda_sm90)\n" in suite.stored()["scale/double-f32.txt"]
    assert "== torch 2.13: cuda_sm90 (confirmed: cuda_sm90)\n" in suite.stored()["scale/double-f16.txt"]


def test_confirm_only_changes_no_text(suite, brought, capsys):
    store(suite).merge({F16: {(TORCH, "cuda_sm90"): SAME}})
    before = suite.stored()["scale/double-f16.txt"]
    assert accepted(suite, "--confirm-only") == 1
    out = capsys.readouterr().out
    assert f"not accepted: {F16}-cuda_sm90: its text differs from the stored text" in out
    assert "confirmed on the device: 1\n" in out
    assert suite.stored()["scale/double-f16.txt"] == before
    assert "(confirmed: cuda_sm90)" in suite.stored()["scale/double-f32.txt"]


def test_only_a_checked_gpu_confirms(suite, brought, capsys):
    failed = CheckResult(Outcome.FAILED, "it differs")
    for mode, checks in (("native", {"deviceless": failed}), ("native", {}), ("deviceless", {"deviceless": PASSED})):
        brought.write_item(record(F32, SAME, mode, **checks))
        assert accepted(suite, "--confirm-only") == 1
        out = capsys.readouterr().out
        assert f"{F32}-cuda_sm90: not confirmed; run pytest --verify-deviceless on the device" in out
        assert accepted(suite) == 0
        assert "confirmed" not in suite.stored()["scale/double-f32.txt"]


def test_what_is_not_here(suite, brought, capsys):
    brought.write_item(record("scale/gone-f32", SAME, deviceless=PASSED))
    brought.write_item(record(F16, SAME, deviceless=PASSED, numerics=CheckResult(Outcome.FAILED, "wrong")))
    assert accepted(suite) == 1
    out = capsys.readouterr().out
    assert f"not accepted: scale/gone-f32-cuda_sm90: there is no such case in {suite.root}/ops\n" in out
    assert f"not accepted: {F16}-cuda_sm90: its numerics fail\n" in out

    (brought.folder / "items/scale/double-f16-cuda_sm90.json").write_text('{"case": "scale/double-f16"}')
    assert accepted(suite) == 2
    assert "not written by this version of the suite" in capsys.readouterr().err
    assert main(["accept", "nowhere"]) == 2
    assert "there is no run 'nowhere'" in capsys.readouterr().err


def test_accepting_at_the_end_of_a_run(tmp_path):
    """EXPECTTEST_ACCEPT=1 and =new confirm texts that the GPU generated."""
    folder = str(tmp_path / "expected_code")
    for mode in ("all", "new"):
        items = [record(F32, SAME, deviceless=PASSED), record(F32, SAME, "deviceless", "cuda_sm80")]
        for item in items:
            item.store = folder
        kept = accept_snapshots(items, mode, ["cuda_sm80", "cuda_sm90"])
        assert (kept.confirmed, kept.refused, kept.problems) == (1, {}, [])
        stored = Store(tmp_path / "expected_code").read(F32) or Snapshot()
        assert stored.confirmed == {("2.13", "cuda_sm90")}
