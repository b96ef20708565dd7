"""benchmarks/bug_releases.py: since which release a bug exists, by what its script did on each."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from bug_releases import SHOWS, since

ENDS = "it ends without an error"


@pytest.mark.parametrize(
    ("releases", "wanted"),
    [
        ({"2.6": SHOWS, "2.9": SHOWS, "2.13": SHOWS}, "2.6 or earlier"),
        ({"2.10": SHOWS, "2.9": ENDS, "2.13": SHOWS}, "2.10"),
        ({"2.9": SHOWS, "2.10": ENDS, "2.13": SHOWS}, "2.13"),
        ({"2.9": SHOWS, "2.13": ENDS}, "2.9 or earlier"),
        ({"2.6": ENDS, "2.9": SHOWS, "2.13": ENDS}, "2.9"),
        ({"2.13": ENDS}, ""),
        ({}, ""),
    ],
)
def test_since(releases, wanted):
    assert since(releases) == wanted
