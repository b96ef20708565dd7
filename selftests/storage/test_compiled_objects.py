"""The cache folder is pruned by age and size, and never what a run may use now."""

from __future__ import annotations

import os

import pytest
from suites import SCALE, Suite, empty_cache

from conformance.storage import compiled_objects

DAY = 86400.0
NOW = 1000 * DAY


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def write(folder, name, days, size=10, *, read=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (NOW - DAY * (days if read is None else read), NOW - DAY * days))
    return path


def names(folder):
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_old_files_and_empty_folders_go(folder):
    write(folder, "torch-1/inductor/ab/old.so", 31)
    write(folder, "torch-2/inductor/ab/read.so", 31, read=29)
    write(folder, "torch-2/inductor/ab/new.so", 2)
    assert compiled_objects.prune(folder, NOW) == 1
    assert names(folder) == {"read.so", "new.so"}
    assert [path.name for path in folder.iterdir()] == ["torch-2"]


def test_the_oldest_files_go_until_the_rest_fits(folder):
    for days in (5, 4, 3, 2):
        write(folder, f"a/{days}.so", days, size=100)
    assert compiled_objects.prune(folder, NOW, max_size=250) == 2
    assert names(folder) == {"3.so", "2.so"}


def test_what_was_used_today_stays_even_if_it_is_too_large(folder):
    write(folder, "a/today.so", 0.5, size=1000)
    write(folder, "a/before.so", 2, size=1000)
    assert compiled_objects.prune(folder, NOW, max_size=10) == 1
    assert names(folder) == {"today.so"}


def test_once_a_day(folder):
    write(folder, "a/old.so", 40)
    assert compiled_objects.prune_if_due(folder, NOW) == 1
    write(folder, "a/old.so", 40)
    assert compiled_objects.prune_if_due(folder, NOW + DAY / 2) == 0
    assert compiled_objects.prune_if_due(folder, NOW + 2 * DAY) == 1


def test_a_folder_that_is_missing_or_read_only(folder):
    assert compiled_objects.prune_if_due(folder, NOW) == 0
    folder.mkdir()
    write(folder, "a/old.so", 40)
    folder.chmod(0o500)
    try:
        compiled_objects.prune_if_due(folder, NOW)
    finally:
        folder.chmod(0o700)


@pytest.mark.long("its real process starts with an empty cache")
def test_the_end_of_a_run_prunes(tmp_path):
    cache = empty_cache(tmp_path)
    old = cache / "torch-1.0" / "inductor" / "old.so"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    os.utime(old, (DAY, DAY))
    suite = Suite(tmp_path / "suite")
    suite.write("ops/test_scale.py", SCALE)
    ran = suite.run("--target", "cpu_neon", "--checks", "requirements", env={"CONFORMANCE_CACHE": str(cache)})
    ran.ends(0)
    assert not old.exists()
