"""The coverage maps that come with the cases: whether they are still about these cases."""

from __future__ import annotations

import pytest

from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.coverage import map_file
from conformance.coverage.map_file import PACKAGED

#: So many cases may be newer than a map: each of them is selected by every edit.
_NEWER = 0.05
_MAPS = sorted(PACKAGED.glob("*.xz"))


def test_there_is_one():
    assert [each.name for each in _MAPS] == ["torch-2.13.coverage.xz"]


@pytest.mark.parametrize("file", _MAPS, ids=lambda each: each.name)
def test_a_map_has_nearly_all_cases_and_no_others(file):
    coverage = map_file.read(file)
    known = {case for case, _ in coverage.items if not case.startswith("opinfo/")}
    cases = {case.id for case in cases_below([OPS])}
    again = "see docs/coverage.md, `coverage make --missing`"
    assert not known - cases, f"these cases are gone: {again}"
    assert len(cases - known) <= _NEWER * len(cases), f"the map lacks {len(cases - known)} cases: {again}"
    assert {"cpu_avx512", "cuda_sm90"} <= set(coverage.targets)
