"""What `coverage check` compares."""

from __future__ import annotations

from conformance.coverage.coverage_map import CoverageMap, MappedFile
from conformance.coverage.drift import differing_lines, mapped_lines, present, sample

FLIP, ROLL = ("flip/a", "cuda_sm90"), ("flip/b", "cuda_sm90")


def made_map() -> CoverageMap:
    made = CoverageMap("2.13", files={"_inductor/ir.py": MappedFile("", once=frozenset({1}))})
    made.add(*FLIP, {"_inductor/ir.py": [1, 2, 3]})
    made.add(*ROLL, {"_inductor/ir.py": [3, 4]})
    return made


def test_sample_is_spread():
    items = [("a", str(number)) for number in range(100)]
    assert sample(items, 4) == [0, 25, 50, 75]
    assert sample(items[:3], 40) == [0, 1, 2]
    assert sample(items, 0) == []


def test_present_items():
    """Another operator or target is no gone item, and a target that the map lacks is no lacking one."""
    items = [FLIP, ("flip/new", "cuda_sm90"), ("flip/a", "xpu_pvc")]
    drift = present(made_map(), items, whole_files=True)
    assert (drift.lacking, drift.gone) == ([("flip/new", "cuda_sm90")], [ROLL])
    assert not present(made_map(), [FLIP], whole_files=False)
    assert not present(made_map(), [("roll/a", "cuda_sm80")], whole_files=True)
    made = made_map()
    made.add("opinfo/abs", "cuda_sm90", {})
    other = [("roll/a", "cuda_sm90")]
    assert not present(made, other, whole_files=True).gone
    assert present(made, other, whole_files=True, whole_suite=True).gone == [FLIP, ROLL]


def test_lines_of_an_item():
    """Lines that a process executes once say nothing of an item."""
    mapped = mapped_lines(made_map(), [FLIP])
    assert mapped == {FLIP: {"_inductor/ir.py": {2, 3}}}
    recorded = {"_inductor/ir.py": {1, 3, 5, 6}, "_inductor/new.py": {7}}
    once = {"_inductor/ir.py": {1, 6}}
    assert differing_lines(mapped[FLIP], recorded, once) == {"_inductor/ir.py": "-2 +5", "_inductor/new.py": "+7"}
    assert differing_lines(mapped[FLIP], mapped[FLIP], {}) == {}
