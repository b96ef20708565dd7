"""The differences of a file: those that are executed, and kept so that nobody parses twice."""

from __future__ import annotations

import os

import pytest

from conformance.bisection import differences, file_differences

OLD = "LIMIT = 1\n\ndef load():\n    return 1\n\nclass Kernel:\n    def store(self):\n        return 1\n"
NEW = OLD.replace("1", "2").replace("def load", "# moved\ndef load")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONFORMANCE_CACHE", str(tmp_path))
    return tmp_path / file_differences.FOLDER


def test_constants_and_executed_functions_are_candidates(cache):
    found = file_differences.file_differences("ops.py", OLD, NEW)
    assert [each.name for each in found.executed([3], [])] == ["LIMIT", "load"]
    assert [each.name for each in found.executed([], [4])] == ["LIMIT", "load"]
    assert [each.name for each in found.executed([8], [])] == ["LIMIT", "Kernel.store"]
    assert [each.name for each in found.executed([2], [])] == ["LIMIT"]


def test_a_file_is_parsed_once(cache, monkeypatch):
    first = file_differences.file_differences("ops.py", OLD, NEW)
    monkeypatch.setattr(differences, "differences", lambda *_: pytest.fail("parsed again"))
    assert file_differences.file_differences("ops.py", OLD, NEW) == first


def test_another_text_and_a_broken_entry_are_parsed(cache):
    file_differences.file_differences("ops.py", OLD, NEW)
    (kept,) = cache.iterdir()
    kept.write_text("{")
    found = file_differences.file_differences("ops.py", OLD, NEW)
    assert len(found.found) == 3
    assert len(file_differences.file_differences("ops.py", OLD, OLD).found) == 0


def test_unused_entries_are_deleted(cache):
    file_differences.file_differences("ops.py", OLD, NEW)
    file_differences.file_differences("ops.py", OLD, OLD)
    old, new = cache.iterdir()
    os.utime(old, (0, 0))
    assert file_differences.delete_unused() == 1
    assert list(cache.iterdir()) == [new]
