"""`confirm` on a stand-in for an Intel GPU, and `accept` of its archive in a copy of the project."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import time
import zipfile
from pathlib import Path

import pytest
from standing_in import PROBLEM, command, gpu, preload_gpu_free_worker, start
from suites import NATIVE, REPOSITORY, SCALE, empty_cache
from suites import PreloadedSuite as Suite

from conformance.cli import confirming
from conformance.cli.main import main
from conformance.devices import environment
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.storage.runs import Run
from conformance.storage.snapshots import torch_release

RELEASE = torch_release(environment.torch_build().version)
XPU = ("--target", "xpu_bmg")


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Suite:
    """Two cases with stored code of xpu_pvc. Of xpu_bmg, only the code of f32 is stored."""
    if PROBLEM:
        pytest.skip(PROBLEM)
    preload_gpu_free_worker()
    suite = Suite(tmp_path_factory.mktemp("stored"))
    suite.write("ops/test_scale.py", SCALE)
    suite.accept("--target", "xpu_pvc").ends(0)
    suite.accept(*XPU, "-k", "f32").ends(0)
    return suite


@pytest.fixture(scope="module")
def confirmed(stored, tmp_path_factory) -> tuple[Suite, Path]:
    """The suite on a machine with the GPU, after `confirm`, and its archive."""
    suite = stored.copy_to(tmp_path_factory.mktemp("with_gpu"))
    cache = {"CONFORMANCE_CACHE": str(empty_cache(suite.root))}
    ran = command(suite, "confirm", "ops", "-n", "2", "--output", "mine.zip", env=gpu() | cache)
    ran.ends(1).has("Runs natively for xpu_bmg. Then writes mine.zip.", "items: 2; with code that is not stored: 0;")
    ran.has("Look into it before you send it", "Attach it to an issue of the project")
    return suite, suite.root / "mine.zip"


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
def test_a_run_on_the_device_is_in_the_archive(confirmed):
    suite, archive = confirmed
    [run] = (suite.root / ".conformance/runs").glob("confirm-*")
    assert {item.mode for item in Run(run).items()} == {"native"}
    assert not list(suite.root.glob(".*.tmp"))
    with zipfile.ZipFile(archive) as file:
        manifest, items = (json.loads(file.read(name)) for name in ("manifest.json", "items.json"))
        assert "nothing is stored" in file.read("failures.txt").decode()
    assert (manifest["target"], manifest["device"]["type"], manifest["selected"]) == ("xpu_bmg", "xpu", 2)
    outcomes = {item["case"]: {check: each["outcome"] for check, each in item["checks"].items()} for item in items}
    passed = {"numerics": "passed", "requirements": "passed", "code": "passed", "deviceless": "passed"}
    assert outcomes == {"scale/double-f32": passed, "scale/double-f16": passed | {"code": "failed"}}


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
def test_accepting_gives_what_the_device_itself_stores(confirmed, stored, tmp_path):
    here = stored.copy_to(tmp_path / "here")
    ran = command(here, "accept", str(confirmed[1]), "ops").ends(0)
    ran.has(
        "numerics on the device: 2 passed", "snapshots: 1 new, 0 changed, 1 unchanged", "confirmed on the device: 2"
    )
    assert f"== torch {RELEASE}: xpu_pvc xpu_bmg (confirmed: xpu_bmg)\n" in here.stored()["scale/double-f32.txt"]

    device = stored.copy_to(tmp_path / "device")
    variables = gpu() | {"EXPECTTEST_ACCEPT": "new", "CONFORMANCE_CACHE": str(empty_cache(tmp_path))}
    device.run(*XPU, "--verify-deviceless", env=variables).ends(0).has("confirmed on the device: 2")
    assert here.stored() == device.stored()

    again = here.stored()
    command(here, "accept", str(confirmed[1]), "ops").ends(0).has("snapshots: 0 new, 0 changed, 2 unchanged")
    assert here.stored() == again


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
def test_confirm_only_stores_no_code(confirmed, stored, tmp_path):
    here = stored.copy_to(tmp_path)
    ran = command(here, "accept", str(confirmed[1]), "ops", "--confirm-only").ends(1)
    ran.has("confirmed on the device: 1", "not accepted: scale/double-f16-xpu_bmg: nothing is stored")


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
def test_stored_code_that_changed_meanwhile(confirmed, stored, tmp_path):
    here = stored.copy_to(tmp_path)
    file = here.root / "ops/expected_code/scale/double-f32.txt"
    file.write_text(file.read_text().replace("2.0", "3.0"))
    before = file.read_text()
    changed = "the stored code has changed since the archive was written"
    ran = command(here, "accept", str(confirmed[1]), "ops").ends(1)
    ran.has(f"differs: scale/double-f32-xpu_bmg: {changed}", "confirmed on the device: 1")
    assert file.read_text() == before


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
def test_a_gpu_without_a_row(stored, tmp_path):
    """The archive describes it. The row is printed, or added in a copy of the package, with its code."""
    suite = stored.copy_to(tmp_path / "suite")
    variables = gpu(gpu_subslice_count=24, name="Arc B770") | {"CONFORMANCE_CACHE": str(empty_cache(tmp_path))}
    ran = command(suite, "confirm", "ops", "-k", "f32", "-n", "0", env=variables).ends(0)
    ran.has("Runs natively for xpu_local: Arc B770 has no row in targets.toml. The archive describes it.")
    archive = f"conformance-xpu_local-torch{RELEASE}.zip"

    before = suite.stored()
    ran = command(suite, "accept", archive, "ops").ends(1)
    ran.has("no row in targets.toml, so nothing was stored", 'description = "Arc B770"', "gpu_subslice_count = 24")
    assert suite.stored() == before

    copy = tmp_path / "repository"
    ignored = shutil.ignore_patterns("__pycache__", "expected_code", "expected_binary", "ops")
    shutil.copytree(REPOSITORY / "conformance", copy / "conformance", ignore=ignored)
    variables = {"PYTHONPATH": str(copy)}
    for name in ("xpu_bmg", "cuda_b770", "xpu B770"):
        refused = command(suite, "accept", archive, "ops", "--add-row", name, env=variables).ends(2)
        refused.has(f"--add-row {name}: give a new name of lower-case letters, digits and _ that begins with xpu_")
    ran = command(suite, "accept", archive, "ops", "--add-row", "xpu_b770", env=variables).ends(0)
    ran.has("snapshots: 1 new, 0 changed, 0 unchanged", "confirmed on the device: 1")
    row = targets(copy / "conformance/devices/targets.toml")["xpu_b770"]
    assert (row.properties["gpu_subslice_count"], row.description) == (24, "Arc B770")
    assert "xpu_b770 (confirmed: xpu_b770)\n" in suite.stored()["scale/double-f32.txt"]


#: A case whose exception names whom and what the archive must not name.
TELLING = """
import os, socket
from conformance import case, tensor

def words():
    home = os.environ["HOME"]
    return f"{home}/secret/thing.py of zaphod on {socket.gethostname()} and heartofgold, ~/x {os.getcwd()}/here"

@case(x=tensor(20))
def test_told(x):
    raise ValueError(WORDS)

WORDS = words()
"""


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
def test_the_archive_names_nobody(stored, tmp_path):
    suite = stored.copy_to(tmp_path / "zaphod" / "work")
    suite.write("ops/test_telling.py", TELLING)
    planted = {
        "HOME": str(tmp_path / "zaphod"),
        "USER": "zaphod",
        "LOGNAME": "zaphod",
        "HOSTNAME": "heartofgold.example",
    }
    cache = {"CONFORMANCE_CACHE": str(empty_cache(tmp_path))}
    ran = command(suite, "confirm", "ops", "-n", "0", "--output", "told.zip", env=gpu() | planted | cache)
    ran.ends(1).has("told.zip: items: 3;")
    with zipfile.ZipFile(suite.root / "told.zip") as file:
        members = {name: file.read(name).decode() for name in file.namelist()}
    assert "ValueError" in members["items.json"]
    assert "<user> on <host> and <host>" in members["failures.txt"]
    content = "\n".join([*members, *members.values()])
    uuid = "8680a0bd"
    for name in ("zaphod", "heartofgold", socket.gethostname(), str(tmp_path), str(Path.home()), "secret", uuid):
        assert name not in content, name
    assert not re.search(r"/(?:home|root|tmp)/", content)


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
def test_ctrl_c_leaves_no_archive(stored, tmp_path):
    suite = stored.copy_to(tmp_path)
    cache = {"CONFORMANCE_CACHE": str(empty_cache(tmp_path))}
    slow = "import time\nfrom conformance import case, tensor\n@case(x=tensor(20))\ndef test_slow(x):\n    return x\n"
    suite.write("ops/test_slow.py", slow + "\ntime.sleep(5)\n")
    process = start(suite, "confirm", "ops", "-n", "0", "--output", "mine.zip", env=gpu() | cache)
    run = suite.root / ".conformance/runs/confirm-xpu_bmg"
    limit = time.monotonic() + 120
    while not run.exists() and time.monotonic() < limit:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 130, text
    assert "interrupted: no archive was written\n" in text
    assert not [path for path in suite.root.rglob("*") if ".zip" in path.name]


@pytest.mark.long("confirm starts processes for doctor and for each run, and each imports torch")
@pytest.mark.skipif(not NATIVE, reason="this CPU has no known instruction set")
def test_a_cpu_target_tries_the_command(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", SCALE)
    words = ("confirm", "ops", "--target", NATIVE, "-k", "f32", "-n", "0", "--output", "cpu.zip")
    refused = command(suite, *words).ends(2)
    refused.has(f"nothing is stored for torch {RELEASE}, so a device cannot confirm it; stored are: none")
    suite.accept("--target", NATIVE).ends(0)
    command(suite, *words).ends(0).has("compares nothing with code that is generated without the device", "items: 1;")
    before = suite.stored()
    ran = command(suite, "accept", "cpu.zip", "ops").ends(0)
    ran.has("numerics on the device: 1 passed", "the same as the stored code, which has no marks for CPUs: 1")
    assert suite.stored() == before
    refused = command(suite, *words, "-k", "nothing_at_all").ends(2)
    refused.has("no case is selected by -k 'nothing_at_all': no archive was written")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "torch finds no GPU here. Install the GPU's driver and a torch that is built for it; `--target cpu_avx2`"),
        (("--target", "xpu_bmg"), "--target xpu_bmg does not run on this machine; these do: "),
        (("--output", "mine.tar"), "--output mine.tar: the archive is a zip file, so give a name that ends in .zip"),
        (("--output", "nowhere/mine.zip"), "--output nowhere/mine.zip: it cannot be written there"),
    ],
)
def test_what_cannot_be_confirmed(words, message, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Machine, "detect", lambda: Machine(isas=("avx2",)))
    monkeypatch.setattr(confirming, "_wait", lambda _process: pytest.fail("pytest was started"))
    assert main(["confirm", *words]) == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_where_to_send_it(monkeypatch):
    """The address is the one that the package names. Without one, none is invented."""
    from email.message import Message

    metadata = Message()
    monkeypatch.setattr(confirming.importlib.metadata, "metadata", lambda _name: metadata)
    assert "://" not in confirming.where_to_send()
    metadata["Project-URL"] = "Source, https://example.org/source"
    metadata["Project-URL"] = "Issues, https://example.org/issues"
    assert confirming.where_to_send() == "Attach it to an issue: https://example.org/issues"
