"""Files that name the cases to run: what a line may be, and what a line that names nothing gets as an answer."""

from __future__ import annotations

import pytest

from conformance.cases.loader import cases_in
from conformance.cases.subset import SubsetError, read_subset

FILE = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]))
def test_double(x):
    return x * 2

@case(x=tensor(20))
def test_triple(x):
    return x * 3
"""
TARGETS = ("cpu_avx2", "cuda_sm90")


@pytest.fixture
def cases(tmp_path):
    file = tmp_path / "test_scale.py"
    file.write_text(FILE)
    return list(cases_in(file).values())


@pytest.fixture
def subset(tmp_path):
    def read(text):
        (tmp_path / "mine.txt").write_text(text)
        return read_subset(tmp_path / "mine.txt")

    return read


@pytest.mark.parametrize(
    ("line", "selected"),
    [
        ("scale/double-f16", ["double-f16 cpu_avx2", "double-f16 cuda_sm90"]),
        ("  scale/double-f16   # why", ["double-f16 cpu_avx2", "double-f16 cuda_sm90"]),
        ("scale/double-f16-cuda_sm90", ["double-f16 cuda_sm90"]),
        ("any/folder/test_scale.py::test_double[f16-cuda_sm90]", ["double-f16 cuda_sm90"]),
        ("test_scale.py::test_triple", ["triple cpu_avx2", "triple cuda_sm90"]),
        ("scale/double", [f"double-{dtype} {target}" for dtype in ("f32", "f16") for target in TARGETS]),
        ("scale/*-cuda_sm90", ["double-f32 cuda_sm90", "double-f16 cuda_sm90", "triple cuda_sm90"]),
        ("*-f1?", ["double-f16 cpu_avx2", "double-f16 cuda_sm90"]),
        ("# nothing\n\nscale/triple", ["triple cpu_avx2", "triple cuda_sm90"]),
    ],
)
def test_lines(cases, subset, line, selected):
    lines = subset(line)
    lines.validate(cases, TARGETS)
    found = [f"{case.id.partition('/')[2]} {target}" for case in cases for target in TARGETS if lines.has(case, target)]
    assert found == selected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("scale/duble-f16", "mine.txt:2: 'scale/duble-f16' names no case; nearest: scale/double-f16"),
        ("scale/double-f8*", "names no case; nearest: "),
        ("scale/double-f16-cuda_sm9", "names no case; nearest: scale/double-f16"),
        ("test_scale.py::test_none", "names no case"),
        ("other/case", "names no case; `python -m conformance list` lists all"),
    ],
)
def test_a_line_that_names_nothing_is_an_error(cases, subset, line, message):
    with pytest.raises(SubsetError) as caught:
        subset(f"scale/triple\n{line}\n").validate(cases, TARGETS)
    assert message in str(caught.value)


def test_lines_of_files_that_were_not_collected_are_not_judged(cases, subset):
    lines = subset("other/case\noth*\nscale/triple")
    lines.validate(cases, TARGETS, others=["other", "scale"])
    with pytest.raises(SubsetError, match="'scale/none' names no case"):
        subset("scale/none").validate(cases, TARGETS, others=["other", "scale"])


def test_files_that_name_nothing(tmp_path, subset):
    with pytest.raises(SubsetError, match="names no case: write a case id or a pattern a line"):
        subset("# all of them\n")
    with pytest.raises(SubsetError, match=r"none\.txt cannot be read: No such file"):
        read_subset(tmp_path / "none.txt")
