"""The verdicts of numerics that passed: many writers, a kill in the middle, foreign files, age and number."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from conformance.storage import passed_numerics
from conformance.storage.passed_numerics import PassedNumerics, merge

DIGESTS = [f"{number:064x}" for number in range(10)]


def passed(folder: Path) -> list[str]:
    """The digests that count, as another process sees them."""
    store = PassedNumerics(folder)
    return [digest for digest in DIGESTS if store.find(digest) is not None]


def only_file(folder: Path) -> Path:
    [file] = folder.glob("*.txt")
    return file


def make_idle(folder: Path) -> None:
    for file in folder.glob("*.txt"):
        os.utime(file, (time.time() - 7200, time.time() - 7200))


def test_another_process_finds_a_verdict(tmp_path):
    store = PassedNumerics(tmp_path)
    assert store.find(DIGESTS[0]) is None
    store.add(DIGESTS[0], "emulated", "20261122T010203-7", "scale/double-f32-cuda_sm90")
    for reader in (store, PassedNumerics(tmp_path)):
        verdict = reader.find(DIGESTS[0])
        assert verdict is not None
        assert (verdict.how, verdict.run) == ("emulated", "20261122T010203-7")
        assert verdict.item == "scale/double-f32-cuda_sm90"
        assert (
            str(verdict) == f"emulated, in the run 20261122T010203-7 of {verdict.time[:10]} {verdict.time[11:16]} UTC"
        )
    assert passed(tmp_path) == DIGESTS[:1]


def test_a_withdrawn_verdict_does_not_count_until_it_is_given_again(tmp_path):
    PassedNumerics(tmp_path).add(DIGESTS[0], "native", "run", "item")
    other = PassedNumerics(tmp_path)
    other.withdraw(DIGESTS[0])
    assert other.find(DIGESTS[0]) is None
    assert passed(tmp_path) == []
    other.add(DIGESTS[0], "native", "run", "item")
    assert passed(tmp_path) == DIGESTS[:1]


def test_an_incomplete_line_is_ignored_and_costs_no_other_line(tmp_path):
    store = PassedNumerics(tmp_path)
    for digest in DIGESTS[:2]:
        store.add(digest, "native", "run", "item")
    file = only_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-20])  # killed while it wrote the second
    assert passed(tmp_path) == DIGESTS[:1]
    store.add(DIGESTS[2], "native", "run", "item")
    assert passed(tmp_path) == [DIGESTS[0], DIGESTS[2]]


def test_an_incomplete_withdrawal_withdraws(tmp_path):
    store = PassedNumerics(tmp_path)
    store.add(DIGESTS[0], "native", "run", "item")
    store.withdraw(DIGESTS[0])
    file = only_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-5])
    assert passed(tmp_path) == []


@pytest.mark.parametrize("change", [("native", "nativE"), (DIGESTS[0], DIGESTS[5]), ("20", "21")])
def test_a_changed_line_does_not_count(tmp_path, change):
    PassedNumerics(tmp_path).add(DIGESTS[0], "native", "run", "item")
    file = only_file(tmp_path)
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(*change, 1))
    assert passed(tmp_path) == []


def test_foreign_files_are_ignored(tmp_path):
    PassedNumerics(tmp_path).add(DIGESTS[0], "native", "run", "item")
    (tmp_path / "foreign.txt").write_bytes(b"\x00\xff" * 500 + b"\n{}\n" + DIGESTS[1].encode() + b" passed\n")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "other.bin").write_text("x")
    assert passed(tmp_path) == DIGESTS[:1]


def test_a_folder_that_cannot_be_written_to_stores_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    PassedNumerics(tmp_path / "file" / "below").add(DIGESTS[0], "native", "run", "item")
    assert passed(tmp_path / "file" / "below") == []


def test_many_processes_write_at_once(tmp_path):
    script = (
        "import sys; from pathlib import Path\n"
        "from conformance.storage.passed_numerics import PassedNumerics\n"
        "store = PassedNumerics(Path(sys.argv[1]))\n"
        "for number in range(int(sys.argv[2]), 400, 4): store.add(f'{number:064x}', 'native', 'run', 'item')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(first)]) for first in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    store = PassedNumerics(tmp_path)
    assert sum(store.find(f"{number:064x}") is not None for number in range(500)) == 400


def test_a_verdict_expires(tmp_path, monkeypatch):
    PassedNumerics(tmp_path).add(DIGESTS[0], "native", "run", "item")
    monkeypatch.setattr(passed_numerics, "MAX_AGE", timedelta(seconds=-1))
    assert passed(tmp_path) == []


def test_merging_keeps_what_counts(tmp_path):
    for number in range(25):
        PassedNumerics(tmp_path).add(DIGESTS[number % 10], "native", f"run{number}", "item")
    PassedNumerics(tmp_path).withdraw(DIGESTS[3])
    (tmp_path / "foreign.txt").write_text("x" * 200)
    merge(tmp_path)
    assert len(list(tmp_path.glob("*.txt"))) == 27  # their processes may still write
    make_idle(tmp_path)
    young = PassedNumerics(tmp_path)
    young.add(DIGESTS[3], "emulated", "young", "item")
    merge(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == sorted(["merged.txt", young._file.name])
    assert passed(tmp_path) == DIGESTS
    assert PassedNumerics(tmp_path).find(DIGESTS[4]).run == "run24"
    young._file.unlink()
    assert passed(tmp_path) == [digest for digest in DIGESTS if digest != DIGESTS[3]]  # the withdrawal was kept


def test_merging_bounds_the_number(tmp_path):
    for digest in DIGESTS:
        for _ in range(3):
            PassedNumerics(tmp_path).add(digest, "native", "run", "item")
    make_idle(tmp_path)
    merge(tmp_path, most=4)
    assert passed(tmp_path) == DIGESTS[-4:]


def test_ten_thousand_look_ups_take_less_than_a_second(tmp_path):
    store = PassedNumerics(tmp_path)
    digests = [f"{number:064x}" for number in range(10_000)]
    lines = [passed_numerics._line(digest, {"how": "native", "run": "run", "item": "item"}) for digest in digests]
    tmp_path.joinpath("all.txt").write_bytes(b"\n".join(lines))
    before = time.process_time()
    assert all(store.find(digest) is not None for digest in digests)
    assert time.process_time() - before < 1.0
