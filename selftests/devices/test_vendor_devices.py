"""Devices of other packages: the registry of entry points, its messages, and what asks it."""

from __future__ import annotations

import sys

import pytest

from conformance.cases.selectors import TargetName, applying
from conformance.cases.target_selection import select_targets
from conformance.devices import targets
from conformance.devices.machine import Machine
from conformance.devices.targets import TargetError
from conformance.devices.vendor_devices import (
    VendorDeviceError,
    device_types,
    deviceless_problem,
    kernel_language,
    probed,
    registration_problem,
    vendor_devices,
)

MODULE = """
from pathlib import Path
from conformance import VendorDevice

def probe():
    {probe}

def register():
    raise OSError("no driver")

DEVICE = VendorDevice(name={name}, targets={targets}, probe=probe, register=register, kernels={kernels}, {more})
OTHER = object()
"""
ROW = """
[nova_one]
device = "nova"
description = "Nova One"
confirmed = "on the device"
code_like = "cuda_sm90"
"""


@pytest.fixture(autouse=True)
def forgotten():
    """What earlier tests found is not there, nor what these tests find later."""
    for cached in (vendor_devices, targets.targets):
        cached.cache_clear()
    yield
    for cached in (vendor_devices, targets.targets):
        cached.cache_clear()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a vendor's package: writes its module and its metadata into a folder on sys.path."""

    def install(
        *,
        name="'nova'",
        table=ROW,
        file="Path(__file__).with_name('nova.toml')",
        probe="return ['nova_one', 'nova_one']",
        kernels="'triton'",
        more="selectors=('gpu',)",
        entry="nova = conformance_nova:DEVICE",
        package="nova-conformance",
    ):
        folder = tmp_path / package
        info = folder / f"{package.replace('-', '_')}-2.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.1\n")
        (info / "entry_points.txt").write_text(f"[conformance.devices]\n{entry}\n")
        text = MODULE.format(name=name, targets=file, probe=probe, kernels=kernels, more=more)
        (folder / "conformance_nova.py").write_text(text)
        (folder / "nova.toml").write_text(table)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.delitem(sys.modules, "conformance_nova", raising=False)

    return install


def test_device_is_known(install):
    install()
    assert device_types()[:3] == ("cpu", "cuda", "xpu")
    assert "nova" in device_types()
    device = vendor_devices()["nova"]
    assert device.package == "nova-conformance 2.1"
    assert kernel_language("nova") == "triton"
    assert probed(device) == ["nova_one", "nova_one"]
    row = targets.targets()["nova_one"]
    assert (row.device, row.code_like) == ("nova", "cuda_sm90")
    assert targets.excused_like("nova_one") == "cuda_sm90"
    assert [each.name for each in select_targets(targets.targets().values(), "nova", None)] == ["nova_one"]


def test_no_code_without_the_device(install):
    install()
    assert deviceless_problem("nova") == "nova-conformance 2.1 generates no code without the device"
    assert Machine().describe("nova") == "not here"


def test_code_without_the_device(install):
    install(more="stages=('deviceless',), pretending=probe, scheduling='nova.code:Scheduling'", kernels="'nova'")
    assert deviceless_problem("nova") == deviceless_problem("cuda") == ""
    assert Machine().describe("nova") == "deviceless"
    assert kernel_language("nova") == "nova"


def test_built_in_targets_are_the_same(install):
    before = dict(targets.targets())
    targets.targets.cache_clear()
    vendor_devices.cache_clear()
    install()
    after = targets.targets()
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"nova_one"}


def test_nothing_is_imported_for_the_options(install):
    install()
    import conformance.plugin  # noqa: F401

    assert "conformance_nova" not in sys.modules
    vendor_devices()
    assert "conformance_nova" in sys.modules


def test_machine(install):
    install()
    gpu = {"target": "nova_one", "capability": [0, 0], "properties": {"name": "Nova One"}, "ordinals": [0, 1]}
    machine, row = Machine(("avx2",), {"nova": gpu}), targets.targets()["nova_one"]
    assert machine.is_native(row)
    assert machine.describe("nova") == "native (Nova One, nova_one)"
    assert not Machine(("avx2",)).is_native(row)
    assert Machine(("avx2",)).describe("nova") == "not here"
    unknown = Machine((), {"nova": gpu | {"target": ""}})
    assert unknown.target_of("nova").name == "nova_local"
    assert unknown.target_of("nova").local


@pytest.mark.parametrize(
    ("selector", "applies"),
    [
        ("all", True),
        ("nova", True),
        ("nova_one", True),
        ("gpu", True),
        ("cuda_sm90", True),
        ("cuda", False),
        ("cpu", False),
    ],
)
def test_selectors(install, selector, applies):
    class Labelled:
        labels = ("f32",)

    install()
    assert bool(applying([selector], Labelled, TargetName("nova_one", "nova"))) is applies


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "'cuda'"}, "its name is 'cuda', which is a device type of conformance"),
        ({"name": "'other'"}, "its name is 'other'; the entry point and the device have the same name"),
        ({"file": "Path('nowhere.toml')"}, "its targets are 'nowhere.toml', and there is no such file"),
        ({"kernels": "'cuda'"}, "its kernels are 'cuda'; they must be 'cpp' or 'triton'"),
        ({"more": "selectors=('gpus',)"}, "its selectors are ('gpus',); they must be a tuple of 'cpu'"),
        ({"more": "stages=('native', 'timed')"}, "its stages are ('native', 'timed'); they must be"),
        ({"more": "stages=()"}, "without 'native' or 'deviceless', no case runs on it"),
        ({"more": "stages=('deviceless',)"}, "its pretending is None; it must be a function"),
        ({"more": "stages=('emulated', 'native'), pretending=probe"}, "its emulating is None; it must be a function"),
        ({"entry": "nova = conformance_nova:OTHER"}, "is of type object: it must be a conformance.VendorDevice"),
        ({"entry": "nova = conformance_nova:MISSING"}, "cannot be loaded: conformance_nova:MISSING: AttributeError"),
        ({"entry": "nova = no_such_module:DEVICE"}, "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_wrong_entry_is_one_sentence(install, wrong, message):
    install(**wrong)
    with pytest.raises(VendorDeviceError) as raised:
        vendor_devices()
    assert str(raised.value).startswith("the entry point 'nova' of nova-conformance 2.1 (group conformance.devices)")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_packages_with_one_name(install):
    install()
    install(package="nova-again")
    with pytest.raises(VendorDeviceError, match=r"both have a device 'nova': uninstall one"):
        vendor_devices()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[nova_one", "are not valid TOML"),
        ("", r"have no row; write one such as \[nova_one\]"),
        (ROW.replace("nova_one", "cuda_new"), "the row 'cuda_new' must have a name that begins with nova_"),
        (ROW.replace('"nova"', '"cuda"'), "unknown device 'cuda'; known are nova"),
        (ROW.replace("sm90", "sm999"), "code_like is 'cuda_sm999'; known are cpu_avx2"),
        (ROW + 'isa = "sse"', "isa is 'sse'; it must be one of avx2"),
        (ROW + "capability = [9, 0]", "unknown key 'capability'"),
        ("nova_one = 3", "nova-conformance 2.1"),
    ],
)
def test_wrong_table(install, table, message):
    install(table=table)
    with pytest.raises(TargetError, match=message) as raised:
        targets.targets()
    assert str(raised.value).startswith("the targets of nova-conformance 2.1 (")


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ("raise OSError('no such bus')", "OSError: no such bus"),
        ("return [1]", r"probe returned \[1\]; it must be a list of names of targets"),
        ("import os; os._exit(3)", "no output"),
    ],
)
def test_failing_probe(install, probe, message):
    install(probe=probe)
    with pytest.raises(VendorDeviceError, match=f"^the devices of nova-conformance 2.1 cannot be listed: .*{message}"):
        probed(vendor_devices()["nova"])


def test_failing_registration(install):
    install()
    message = "nova-conformance 2.1 cannot register the device nova: OSError: no driver"
    assert registration_problem(vendor_devices()["nova"]) == message
