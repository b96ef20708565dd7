"""Where snapshots and known failures of a test file are stored."""

from __future__ import annotations

from conformance.storage.locations import EXPECTED_CODE, storage_folder


def test_snapshots_of_another_file_do_not_change_the_place(tmp_path):
    """tests/test_a.py stores its first snapshot after tests/deep/test_b.py did."""
    deep = tmp_path / "tests/deep"
    deep.mkdir(parents=True)
    assert storage_folder(deep / "test_b.py", EXPECTED_CODE) == deep / EXPECTED_CODE
    (deep / EXPECTED_CODE).mkdir()
    (tmp_path / "tests" / EXPECTED_CODE).mkdir()
    assert storage_folder(deep / "test_b.py", EXPECTED_CODE) == deep / EXPECTED_CODE


def test_a_folder_beside_that_of_the_tests_is_shared(tmp_path):
    (tmp_path / "ops").mkdir()
    (tmp_path / EXPECTED_CODE).mkdir()
    assert storage_folder(tmp_path / "ops/test_a.py", EXPECTED_CODE) == tmp_path / EXPECTED_CODE
