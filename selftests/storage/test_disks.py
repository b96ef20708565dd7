"""Storing on a full disk and on a read-only disk: no file is damaged, and the counts are those of the disk."""

from __future__ import annotations

import subprocess

import pytest

from conformance.storage.accept import accept_snapshots
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Counts, SnapshotError, Store

TARGETS = ["cpu_avx2", "cuda_sm90"]


def mount(folder, options):
    return subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
    ).returncode


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if mount(folder, "size=256k"):
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def long(word):
    return f"{word}\n" * 4000  # 16 to 20 kB


def on_disk(store):
    return {(case, *key): text for case in store.cases() for key, text in store.read(case).texts.items()}


def updates(word):
    return {
        f"flip/case{number:02}": {("2.13", target): long(f"{word}{target[:3]}") for target in TARGETS}
        for number in range(20)
    }


def test_a_full_disk(disk):
    store = Store(disk / "expected", TARGETS)
    small = {case: dict.fromkeys(texts, "old\n") for case, texts in updates("x").items()}
    store.merge(small)
    with pytest.raises(SnapshotError, match="No space left on device") as caught:
        store.merge(updates("new"))
    counts, texts = caught.value.counts, on_disk(store)
    assert 0 < counts.changed < 40
    assert sum(text != "old\n" for text in texts.values()) == counts.changed
    assert all(text in ("old\n", long(f"new{target[:3]}")) for (_, _, target), text in texts.items())
    assert f"{counts.changed} new or changed texts of other cases were stored" in str(caught.value)
    assert not list(disk.rglob("*.tmp"))
    items = [
        ItemRecord(case, target, "deviceless", torch, str(store.root), text=text)
        for case, texts_of_case in updates("other").items()
        for (torch, target), text in texts_of_case.items()
    ]
    accepted = accept_snapshots(items, "all", TARGETS)
    assert accepted.problems
    assert sum("oth" in text for text in on_disk(store).values()) == accepted.counts.changed
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    assert store.merge(updates("new")).changed > 0
    assert on_disk(store) == {(case, *key): text for case, new in updates("new").items() for key, text in new.items()}


def test_a_read_only_disk(disk):
    store = Store(disk / "expected", TARGETS)
    store.merge({"flip/a": {("2.13", "cpu_avx2"): "old"}})
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for call in (
        lambda: store.merge({"flip/a": {("2.13", "cpu_avx2"): "new"}}),
        lambda: store.drop("2.13"),
        lambda: store.remove(["flip/a"]),
    ):
        with pytest.raises(SnapshotError, match=r"cannot be written to, nothing was stored: .*Read-only file system"):
            call()
    assert store.read("flip/a").text("2.13", "cpu_avx2") == "old\n"
    item = ItemRecord("flip/a", "cpu_avx2", "deviceless", "2.13", str(store.root), text="new")
    accepted = accept_snapshots([item], "all", TARGETS)
    assert accepted.counts == Counts()
    assert "Read-only file system" in accepted.lines()[-1]
