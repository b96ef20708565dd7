"""The check of a real GPU after an item."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from conformance.devices.targets import targets
from conformance.harness.accidents import device_health
from conformance.harness.accidents.device_health import DeviceState
from conformance.harness.item.device import ItemDevice
from conformance.harness.item.errors import DeviceError
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord

ILLEGAL = "CUDA error: an illegal memory access was encountered"
NAME = "flip/hflip-cuda_sm90"


@pytest.fixture
def device(monkeypatch):
    """Makes an ItemDevice on a GPU that reports an error after the item, and is broken by it."""
    monkeypatch.setattr(device_health, "device_state", lambda _: DeviceState(ILLEGAL, is_broken=True))
    session = SimpleNamespace(broken="")
    record = ItemRecord(
        case="flip/hflip", target="cuda_sm90", mode="native", torch="2.13.0", store="", text="", checks={}
    )
    return ItemDevice(session, targets()["cuda_sm90"], record, lambda _: contextlib.nullcontext()), session, record


def test_an_error_that_no_check_has_met_fails_the_item(device):
    checked, session, record = device
    with pytest.raises(DeviceError, match=f"{NAME}: the device reports after the item: {ILLEGAL}"), checked.checked():
        pass
    assert record.outcome("device") is Outcome.FAILED
    assert session.broken == f"{NAME} has broken the cuda context ({ILLEGAL})"


def test_an_error_that_a_known_failure_excuses_is_not_reported_again(device):
    checked, session, record = device
    with checked.checked():
        checked.note_excused(RuntimeError(f"{ILLEGAL}\nCompile with TORCH_USE_CUDA_DSA"))
    assert record.outcome("device") is None
    assert session.broken  # this process ends all the same


def test_another_error_is_reported_beside_an_excused_one(device):
    checked, _, record = device
    with pytest.raises(DeviceError), checked.checked():
        checked.note_excused(RuntimeError("CUDA error: misaligned address"))
    assert record.outcome("device") is Outcome.FAILED


def test_a_failed_check_names_the_error(device):
    checked, _, record = device
    with checked.checked():
        record.checks["numerics"] = CheckResult(Outcome.FAILED, "NumericsError: it disagrees")
    assert record.outcome("device") is None
    assert record.checks["numerics"].detail == f"NumericsError: it disagrees ({ILLEGAL})"


def test_memory_is_released_after_it_ran_out(device, monkeypatch):
    checked, _, record = device
    record.mode = "deviceless"
    released = []
    monkeypatch.setattr(device_health, "release_memory", released.append)
    with checked.checked():
        checked.note(MemoryError())
    assert released == ["cuda"]
