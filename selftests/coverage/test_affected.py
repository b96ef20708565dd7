"""Which items an edit selects, by a small map: without torch."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from conformance.coverage import map_file
from conformance.coverage.affected import affected_items
from conformance.coverage.changes import is_places, parse_diff, parse_places
from conformance.coverage.coverage_map import CoverageError, CoverageMap, MappedFile, MappedFunction, numbers_of, ranges
from conformance.coverage.map_file import PACKAGED
from conformance.coverage.questions import items_at, redundant_cases, report
from conformance.sources.conditions import branch
from conformance.sources.torch_source import blob_id
from conformance.sources.units import units_of

PATH = "_inductor/lowering.py"
TEXT = """\
import torch

TABLE = {}


@register(torch.flip)
def flip(x, dims):
    # a comment
    if dims:
        return create(
            x,
            dims,
        )
    return x


def create(x, dims):
    y = x.get()
    return y
"""
#: Item → the lines that it executes: a flips, b returns early, c only creates.
EXECUTED = {"a": [9, 10, 11, 12, 18, 19], "b": [9, 14], "c": [18, 19]}


@pytest.fixture
def coverage() -> CoverageMap:
    functions = [MappedFunction(each.name, each.first, each.last) for each in units_of(TEXT).functions.values()]
    file = MappedFile(blob_id(TEXT.encode()), functions)
    made = CoverageMap("2.13.0", files={PATH: file})
    for case, lines in EXECUTED.items():
        made.add(f"op/{case}", "cuda_sm90", {PATH: lines})
    return made


def selected(coverage: CoverageMap, changes, text: str = TEXT) -> str:
    found = affected_items(coverage, changes, {PATH: text.encode()}.get)
    return "everything" if found.everything else "".join(case[-1] for case, _ in coverage.named(found.items))


def diff(new: str, old: str = TEXT, *, blob: str | None = None) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/torch/{PATH}", f"b/torch/{PATH}", lineterm="")
    index = f"index {blob or blob_id(old.encode())[:9]}..0000001 100644"
    return "\n".join([f"diff --git a/torch/{PATH} b/torch/{PATH}", index, *lines]) + "\n"


def line(text: str) -> int:
    return TEXT.splitlines().index(text) + 1


def test_lines_of_the_text_are_what_the_map_assumes():
    assert [line("    if dims:"), line("    return x"), line("    y = x.get()")] == [9, 14, 18]


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("torch/_inductor/lowering.py:14", "b"),
        ("torch/_inductor/lowering.py:12", "a"),  # in the middle of a statement
        ("/src/pytorch/torch/_inductor/lowering.py:9", "ab"),
        ("torch/_inductor/lowering.py:8", "ab"),  # a comment: its function
        ("torch/_inductor/lowering.py:create", "ac"),
        ("torch/_inductor/lowering.py:14,torch/_inductor/lowering.py:18-19", "abc"),
        ("torch/_inductor/lowering.py:3", "everything"),
        ("torch/_inductor/lowering.py:6", "everything"),  # a decorator
    ],
)
def test_places(coverage, place, wanted):
    assert is_places(place)
    assert selected(coverage, parse_places(place)) == wanted


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("    return x\n", "    return x + 1\n", "b"),
        ("            dims,\n", "            dims + 1,\n", "a"),
        ("    return x\n", "    x = x + 1\n    return x\n", "ab"),  # an added line: the function
        ("    y = x.get()\n", "", "ac"),
        ("    # a comment\n", "    # another comment\n", ""),
        ("    return y\n", "    return y\n\n\ndef added(x):\n    return x\n", ""),  # nothing calls it yet
        ("    return y\n", "    return y\n\n\n@register\ndef added(x):\n    return x\n", "everything"),
        ("TABLE = {}\n", "TABLE = {1: 2}\n", "everything"),
    ],
)
def test_diffs(coverage, old, new, wanted):
    assert TEXT.count(old) == 1
    assert selected(coverage, parse_diff(diff(TEXT.replace(old, new)), "the diff")) == wanted


def test_diff_of_another_commit_is_found_by_its_lines(coverage):
    """The checkout has two more lines above: git's numbers are not those of the map."""
    theirs = TEXT.replace("import torch\n", "import torch\nimport a\nimport b\n")
    changed = theirs.replace("    return x\n", "    return x + 1\n")
    assert selected(coverage, parse_diff(diff(changed, theirs), "the diff")) == "b"


def test_another_torch_is_looked_up_by_function(coverage):
    newer = TEXT.replace("import torch\n", "import torch\nimport a\n")
    changes = parse_places(f"torch/{PATH}:15")
    assert selected(coverage, changes, newer) == "ab"
    [note] = affected_items(coverage, changes, {PATH: newer.encode()}.get).notes
    assert "is not as in the map of torch 2.13.0" in note


def test_what_runs_once_selects_everything(coverage):
    coverage.files[PATH].once = frozenset({14})
    assert selected(coverage, parse_places(f"torch/{PATH}:14")) == "everything"


def test_files_without_an_answer(coverage):
    [other] = parse_places("torch/_dynamo/guards.py:3")
    found = affected_items(coverage, [other], {"_dynamo/guards.py": b"a\nb\nc\n"}.get)
    assert found.everything == "torch/_dynamo/guards.py is not in the map, which has torch/_inductor and decompositions"
    docs = "diff --git a/aten/a.cpp b/aten/a.cpp\n--- a/aten/a.cpp\n+++ b/aten/a.cpp\n@@ -1 +1 @@\n-a\n+b\n"
    found = affected_items(coverage, parse_diff(docs, "the diff"), {}.get)
    assert (found.items, found.everything) == (0, "")
    assert found.notes == ["aten/a.cpp: no Python file of torch, selects nothing"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("torch/_inductor/nothing.py:3", "this torch has no such file"),
        (f"torch/{PATH}:99", "the file has 19 lines"),
        (f"torch/{PATH}:nothing", "has no function nothing"),
    ],
)
def test_wrong_places(coverage, place, message):
    with pytest.raises(CoverageError, match=message):
        selected(coverage, parse_places(place))


def test_no_diff():
    with pytest.raises(CoverageError, match="is no diff"):
        parse_diff("hello\n", "the text")
    assert parse_diff("", "the text") == []


def test_map_file(coverage, tmp_path):
    file = tmp_path / "folder" / map_file.file_name("2.13.0+cpu")
    map_file.write(file, coverage)
    read = map_file.read(file)
    assert (read.torch, read.items, read.files) == (coverage.torch, coverage.items, coverage.files)
    assert file.name == "torch-2.13.coverage.xz"
    file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(CoverageError, match="only a part of one"):
        map_file.read(file)


def test_item_recorded_again_replaces_itself(coverage):
    coverage.add("op/a", "cuda_sm90", {PATH: [14]})
    assert len(coverage.items) == 3
    assert coverage.named(items_at(coverage, f"torch/{PATH}:10", {}.get)) == []
    assert [case for case, _ in coverage.named(coverage.files[PATH].items([14]))] == ["op/a", "op/b"]


def test_dropped_items(coverage):
    coverage.drop([("op/b", "cuda_sm90")])
    lines = coverage.files[PATH].lines
    by_line = {number: "".join(case[-1] for case, _ in coverage.named(items)) for number, items in lines.items()}
    assert by_line == {9: "a", 10: "a", 11: "a", 12: "a", 18: "ac", 19: "ac"}
    assert (coverage.number("op/c", "cuda_sm90"), coverage.number("op/b", "cuda_sm90")) == (1, None)


def test_redundant_cases(coverage):
    assert redundant_cases(coverage) == ["op/c"]
    coverage.add("op/d", "cuda_sm90", {PATH: [14]})
    assert sorted(redundant_cases(coverage)) == ["op/c", "op/d"]


def test_report(coverage, tmp_path):
    file = tmp_path / PATH
    file.parent.mkdir(parents=True)
    file.write_text(TEXT + "\n\ndef never(x):\n    return x\n")
    [found] = report(coverage, tmp_path, [])
    assert found.problem
    coverage.files[PATH].blob = blob_id(file.read_bytes())
    [found] = report(coverage, tmp_path, [])
    assert {each.name: (each.lines, each.missed) for each in found.functions} == {
        "flip": (5, []),
        "create": (2, []),
        "never": (1, [23]),
    }
    assert (found.reached, found.lines) == (7, 8)
    [found] = report(coverage, tmp_path, [{"files": ["_inductor/*"], "functions": ["nev*"], "reason": "a test"}])
    assert (found.reached, found.lines, found.explained) == (7, 7, 1)


EXPLAINED = """def f(x):
    if x:
        return 1
    elif x is None:
        y = 2
        return y
    if always(
        x
    ):
        return 3
    x += 1
    return list(y
        for y in x)
"""


@pytest.mark.parametrize(
    ("where", "missed", "untaken"),
    [
        ({}, [5, 6, 11, 12, 13, 13], {(2, True), (4, True), (7, False)}),
        ({"below": ["elif x is None:"]}, [11, 12, 13, 13], {(2, True), (7, False)}),
        ({"after": ["if always("]}, [5, 6], {(2, True), (4, True)}),
        ({"below": ["elif x is None:"], "after": ["if always("], "functions": ["g"]}, [5, 6, 11, 12, 13, 13], None),
        ({"below": ["if x:"]}, [5, 6, 11, 12, 13, 13], None),  # a case executes it
    ],
)
def test_report_with_an_explained_part(where, missed, untaken, tmp_path):
    (tmp_path / "_inductor").mkdir()
    (tmp_path / PATH).write_text(EXPLAINED)
    made = CoverageMap("2.13.0", files={PATH: MappedFile(blob_id(EXPLAINED.encode()))})
    taken = [branch(2, holds=False), branch(4, holds=False), branch(7, holds=True)]
    made.add("op/a", "cuda_sm90", {PATH: [2, 3, 4, 7, 8, 10]}, {PATH: taken})
    parts = [{"files": ["_inductor/*"], "functions": ["f"], "reason": "a test"} | where] if where else []
    [found] = report(made, tmp_path, parts)
    [function] = found.functions
    assert (function.missed, found.explained, function.reason) == (missed, 6 - len(missed), "")
    assert (found.reached, found.lines) == (6, 6 + len(missed))
    if untaken is not None:
        assert {(each // 2, bool(each % 2)) for each in function.missed_branches} == untaken


def test_ranges():
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3,7,9-10"
    assert numbers_of("1-3,7,9-10") == [1, 2, 3, 7, 9, 10]


def test_explained_files_exist_in_this_torch():
    from conformance.coverage.questions import unreachable_parts
    from conformance.devices.environment import torch_build

    folder = Path(torch_build().folder)
    for part in unreachable_parts():
        assert any(list(folder.glob(pattern)) for pattern in part["files"]), part["reason"]


@pytest.mark.long("it matches the conditions of all explained parts with torch's sources")
def test_explained_parts_exist_in_the_torch_of_the_map():
    """Another torch can have other conditions: there an entry explains less."""
    from conformance.coverage.questions import unreachable_lines, unreachable_parts
    from conformance.devices.environment import torch_build

    if not (PACKAGED / map_file.file_name(torch_build().version)).exists():
        pytest.skip("no map of this torch comes with the cases")
    folder = Path(torch_build().folder)
    for part in unreachable_parts():
        texts = [(key, text) for key in ("below", "after") for text in part.get(key, ())]
        for path in part["files"] if texts else ():
            content = (folder / path).read_text()
            assert units_of(content).functions.keys() >= {*part["functions"]}, part["reason"]
            for key, text in texts:
                found = [unreachable_lines({key: [text]}, content, name)[0] for name in part["functions"]]
                assert any(found), f"{path} has no {text!r} in {part['functions']}: {part['reason']}"
