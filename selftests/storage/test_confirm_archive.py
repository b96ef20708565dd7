"""Archives of `confirm`: what is refused, and under what conditions a text is stored."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import schemas

import conformance
from conformance.cli.main import main
from conformance.devices.targets import targets
from conformance.storage.anonymous import Anonymiser
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.confirm_archive import ArchivedItem, ConfirmArchive, Manifest, sha256, write_archive
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Snapshot, Store

TORCH = "2.13.0+xpu"
F32, F16 = "scale/double-f32", "scale/double-f16"
STORED, OTHER = "kernels     1: mul\n", "kernels     2: mul\n"
PASSED, FAILED = CheckResult(Outcome.PASSED), CheckResult(Outcome.FAILED, "DevicelessError: it differs")
NOBODY = Anonymiser(folders=[], users=[], hosts=[])


@pytest.fixture
def store(suite) -> Store:
    """A suite in the current folder, with code of one case for two targets."""
    found = Store(suite.root / "ops/expected_code", list(targets()))
    found.merge({F32: {(TORCH, "xpu_pvc"): STORED, (TORCH, "xpu_bmg"): STORED}})
    return found


def item(case=F32, text=STORED, compared_with: str | None = STORED, target="xpu_bmg", **checks) -> ArchivedItem:
    checks = {"numerics": PASSED, "deviceless": PASSED} | checks
    record = ItemRecord(case=case, target=target, mode="native", torch=TORCH, store="/secret", text=text, checks=checks)
    return ArchivedItem(record, sha256(text), None if compared_with is None else sha256(compared_with))


def archive(path: Path, *items: ArchivedItem, row="xpu_bmg", torch=TORCH, suite=conformance.__version__, **properties):
    """Writes an archive with the code of its items."""
    device = {"type": "xpu", "capability": [0, 0], "properties": dict(targets()[row].properties) | properties}
    manifest = Manifest(items[0].record.target, device, {"torch": torch, "triton": "3.7.1"}, len(items))
    code = {each.record.case: each.record.text for each in items if each.record.text != STORED}
    for each in items:
        each.record.torch = torch
    write_archive(path, ConfirmArchive(manifest, list(items), code), NOBODY, suite)
    return path


@pytest.fixture
def accept(suite, monkeypatch, capsys):
    """Runs `accept`; returns its exit status and all that it printed."""
    monkeypatch.chdir(suite.root)

    def run(path, *options):
        status = main(["accept", str(path), "ops", *options])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def read(store: Store, case: str) -> Snapshot:
    return store.read(case) or Snapshot()


def test_archive_is_documented(tmp_path):
    with zipfile.ZipFile(archive(tmp_path / "a.zip", item(), item(F16, OTHER, None, numerics=FAILED))) as file:
        for name in ("manifest.json", "items.json"):
            assert schemas.problems("archive", name, json.loads(file.read(name))) == []


def test_equal_code_is_confirmed(store, accept, tmp_path):
    status, text = accept(archive(tmp_path / "a.zip", item()))
    assert (status, "confirmed on the device: 1\n" in text) == (0, True), text
    assert read(store, F32).confirmed == {("2.13", "xpu_bmg")}
    assert "public: " not in text
    assert 'its row can say: confirmed = "Intel(R) Arc(TM) B580 Graphics, torch 2.13.0+xpu' in text


def test_new_code_is_stored(store, accept, tmp_path):
    status, text = accept(archive(tmp_path / "a.zip", item(F16, OTHER, "")))
    assert (status, "snapshots: 1 new, 0 changed, 0 unchanged\n" in text) == (0, True), text
    assert read(store, F16) == Snapshot({("2.13", "xpu_bmg"): OTHER}, {("2.13", "xpu_bmg")})


def test_new_code_is_not_stored_with_confirm_only(store, accept, tmp_path):
    status, text = accept(archive(tmp_path / "a.zip", item(F16, OTHER, "")), "--confirm-only")
    assert (status, "not accepted: scale/double-f16-xpu_bmg: nothing is stored\n" in text) == (1, True), text
    assert read(store, F16) == Snapshot()


CHANGED = "differs: scale/double-f32-xpu_bmg: the stored code has changed since the archive was written, and"
#: What a device gave → how `accept` lists it.
LISTED = {
    "other code": (item(text=OTHER), "differs: scale/double-f32-xpu_bmg: the stored code is another one\n"),
    "the device alone": (
        item(text=OTHER, deviceless=FAILED),
        "differs: scale/double-f32-xpu_bmg: DevicelessError: it differs\n",
    ),
    "the stored code": (item(deviceless=FAILED), "differs: scale/double-f32-xpu_bmg: DevicelessError: it differs\n"),
    "new code": (
        item(F16, OTHER, "", deviceless=FAILED),
        "differs: scale/double-f16-xpu_bmg: DevicelessError: it differs\n",
    ),
    "stored code that changed": (item(text=OTHER, compared_with="x"), CHANGED),
    "code that was stored since": (item(text=OTHER, compared_with=""), CHANGED),
    "no comparison": (
        item(deviceless=CheckResult(Outcome.SKIPPED, "no worker")),
        "xpu_bmg: it was not compared with code that is generated without the device\n",
    ),
    "wrong numbers": (
        item(numerics=CheckResult(Outcome.FAILED, "wrong")),
        "failed: scale/double-f32-xpu_bmg: numerics: wrong\n",
    ),
    "wrong numbers of new code": (
        item(F16, OTHER, "", numerics=FAILED),
        "failed: scale/double-f16-xpu_bmg: numerics: ",
    ),
    "no code": (
        item(text="", compile=CheckResult(Outcome.FAILED, "no memory")),
        "failed: scale/double-f32-xpu_bmg: compile: no memory\n",
    ),
}


@pytest.mark.parametrize("name", LISTED)
def test_what_differs_is_listed_and_not_stored(store, accept, suite, tmp_path, capsys, name):
    given, reason = LISTED[name]
    before = suite.stored()
    status, text = accept(archive(tmp_path / "a.zip", given))
    assert (status, reason in text) == (1, True), text
    assert suite.stored() == before
    if given.record.text == OTHER and "\ndiffers: " in text:
        assert "python -m conformance review a\n" in text
        assert main(["review", "a", "--list"]) == 0
        assert "1 text of 1 case " in capsys.readouterr().out


def test_a_known_failure_of_the_comparison_is_no_difference(store, accept, suite, tmp_path):
    before = suite.stored()
    given = item(deviceless=CheckResult(Outcome.KNOWN, "a reason"))
    status, text = accept(archive(tmp_path / "a.zip", given))
    assert (status, "not confirmed, a known failure: scale/double-f32-xpu_bmg: a reason\n" in text) == (0, True), text
    assert suite.stored() == before


def test_a_variant_stores_what_differs_from_its_row(store, accept, tmp_path):
    store.merge({F16: {(TORCH, "xpu_bmg"): STORED}})
    items = [item(target="xpu_dg2"), item(F16, OTHER, target="xpu_dg2")]
    status, text = accept(archive(tmp_path / "a.zip", *items, row="xpu_dg2"))
    assert (status, "a variant of, so nothing to store: 1\n" in text) == (0, True), text
    assert ("2.13", "xpu_dg2") not in read(store, F32).texts
    assert read(store, F16).texts["2.13", "xpu_dg2"] == OTHER


def test_a_device_that_differs_from_its_row(store, accept, tmp_path):
    _, text = accept(archive(tmp_path / "a.zip", item(), memory_clock_rate=2400, name="Arc B60"))
    assert "the device differs from its row in targets.toml:\n" in text
    assert "  memory_clock_rate: the row has 0, the device 2400\n" in text


def test_an_archive_that_a_stranger_made(store, accept, tmp_path):
    """Characters that a terminal obeys are not printed."""
    bad = item(numerics=CheckResult(Outcome.FAILED, "\x1b[2Jgone"))
    _, text = accept(archive(tmp_path / "a.zip", bad, name="\x1b[31mred"))
    assert "\x1b" not in text
    assert "?[2Jgone" in text


def rewritten(path: Path, member: str, change) -> Path:
    """The archive with another text of one member; None removes it."""
    with zipfile.ZipFile(path) as file:
        texts = {name: file.read(name).decode() for name in file.namelist()}
    text = change(texts.pop(member))
    with zipfile.ZipFile(path, "w") as file:
        for name, each in {**texts, **({} if text is None else {member: text})}.items():
            file.writestr(name, each)
    return path


def edited(path: Path, member: str, **values) -> Path:
    return rewritten(path, member, lambda text: json.dumps(json.loads(text) | values))


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-300])
    return path


def damaged(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))
    return path


def of_another_program(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", '{"format": "holiday photos"}')
    return path


def empty(path: Path) -> Path:
    with zipfile.ZipFile(path, "w"):
        return path


def of_words(path: Path) -> Path:
    path.write_text("hello")
    return path


CONTENT = "its content is not as `confirm` writes it ("
#: What is wrong → how an archive becomes so, and the message.
WRONG = {
    "truncated": (truncated, "is no archive, or a part of it is missing ("),
    "damaged": (damaged, "is no archive, or a part of it is missing ("),
    "words": (of_words, "is no archive, or a part of it is missing ("),
    "another program": (of_another_program, "was not written by `python -m conformance confirm`: its manifest is"),
    "empty": (empty, "was not written by `python -m conformance confirm`: it has no manifest.json"),
    "version": (lambda path: archive(path, item(), suite="9"), "was written by version 9 of the suite (format 1)"),
    "format": (lambda path: edited(path, "manifest.json", format_version=2), "of the suite (format 2), and this is"),
    "target": (lambda path: edited(path, "manifest.json", target="../x"), CONTENT),
    "device": (lambda path: edited(path, "manifest.json", device={}), CONTENT),
    "no items": (lambda path: rewritten(path, "items.json", lambda _: None), "its items.json cannot be read"),
    "half of the items": (lambda path: rewritten(path, "items.json", lambda text: text[:-9]), "its items.json cannot"),
    "other items": (lambda path: rewritten(path, "items.json", lambda _: "[{}]"), CONTENT),
    "another project": (
        lambda path: archive(path, item("other/case")),
        "none of the 1 items of the archive is of a case",
    ),
    "torch": (
        lambda path: archive(path, item(), torch="2.14.0"),
        "nothing is stored for torch 2.14, so a device cannot",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_archives(store, accept, suite, tmp_path, name):
    spoil, message = WRONG[name]
    path = spoil(archive(tmp_path / "a.zip", item(), item(F16, OTHER, "")))
    before = suite.stored()
    status, text = accept(path)
    assert status == 2, text
    assert text.startswith("error: ")
    assert message in text
    assert text.count("\n") == 1
    assert suite.stored() == before
    assert not (suite.root / ".conformance").exists()


def test_nothing_is_half_written(tmp_path, monkeypatch):
    """An archive that cannot be completed leaves the old file, and no temporary one."""
    path = archive(tmp_path / "a.zip", item())
    before = path.read_bytes()

    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archive(path, item(F16, OTHER))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.zip"]


def test_a_row_is_for_an_archive(accept, store, tmp_path):
    status, text = accept("last", "--add-row", "xpu_new")
    assert (status, "--add-row is for an archive" in text) == (2, True)
    status, text = accept(archive(tmp_path / "a.zip", item()), "--add-row", "xpu_new")
    assert (status, "--add-row xpu_new: the device has a row already: xpu_bmg" in text) == (2, True)
