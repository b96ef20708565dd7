"""Processes that write into one folder take turns, and nothing is left there that somebody would commit."""

from __future__ import annotations

import fcntl
import os
import threading
import time

import pytest

from conformance import atomic_files
from conformance.atomic_files import LOCK, lock_folder


class WrongError(Exception):
    pass


def test_writers_take_turns_and_leave_no_lock(tmp_path):
    """The file of the lock is removed by each holder, also while others wait for it."""
    counter, inside = tmp_path / "counter", []
    counter.write_text("0")

    def write():
        for _ in range(12):
            with lock_folder(tmp_path, WrongError):
                inside.append(1)
                assert len(inside) == 1
                before = int(counter.read_text())
                time.sleep(0.0005)
                counter.write_text(str(before + 1))
                inside.pop()

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "72"
    assert [path.name for path in tmp_path.iterdir()] == ["counter"]


def test_a_lock_that_another_process_holds_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "_LOCK_TIMEOUT", 0.1)
    descriptor = os.open(tmp_path / LOCK, os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with (
        pytest.raises(WrongError, match=r"another process has held \.lock for 0\.1 s"),
        lock_folder(tmp_path, WrongError),
    ):
        pass
    os.close(descriptor)
    with lock_folder(tmp_path, WrongError):
        pass
    assert not list(tmp_path.iterdir())


def test_an_error_inside_leaves_no_lock_either(tmp_path):
    with pytest.raises(KeyError), lock_folder(tmp_path / "new", WrongError):
        raise KeyError
    assert not list((tmp_path / "new").iterdir())
