"""The plan of a first run of the selftests: durations.json lets the long ones begin first."""

from __future__ import annotations

import json
import sys

import pytest
from suites import REPOSITORY

from conformance.harness.schedule.batches import batches, longest_first, scheduled_items
from conformance.storage import durations

sys.path.insert(0, str(REPOSITORY / "benchmarks"))
import selftest_durations

QUICK = [f"selftests/harness/test_batches.py::test_{number}" for number in range(200)]
LONG = "selftests/ci/test_determinism.py::test_long"
BESIDE = [f"selftests/ci/test_determinism.py::test_{number}" for number in range(20)]
GONE = f"{selftest_durations.FOLDER}/test_that_was_removed.py::test_x"
SECONDS = dict.fromkeys(QUICK, 0.2) | dict.fromkeys(BESIDE, 0.3) | {LONG: 100.2, GONE: 50.0}


@pytest.fixture
def known(tmp_path) -> dict[str, float]:
    """What a first run reads: the file that the script writes."""
    durations.write(tmp_path, selftest_durations.long_tests(SECONDS))
    return durations.read(tmp_path)


def test_only_long_tests_and_files_that_exist_are_written(known):
    assert {test for test, seconds in known.items() if seconds >= selftest_durations.LONG} == {LONG}
    assert {test.partition("::")[0] for test in known} == {"selftests/ci/test_determinism.py"}


def test_a_long_test_begins_first_and_is_no_reason_to_wait_for_its_neighbours(known):
    items = scheduled_items([*QUICK, *BESIDE, LONG], known)
    assert {item.seconds for item in items if item.node_id in BESIDE} == {0.3}
    first = longest_first(batches(items, 2))[0]
    assert LONG in {item.node_id for item in first.items}


def test_the_file_of_the_repository_is_readable():
    file = REPOSITORY / "selftests" / durations.FILE
    assert len(durations.read(file.parent)) == sum(map(len, json.loads(file.read_text()).values())) > 100
