"""The list of places of torch that ask for xpu is complete for the installed torch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import xpu_branches

from conformance.capture.deviceless import xpu_build
from conformance.devices.environment import torch_build

RELEASE = "{}.{}".format(*torch_build().release)


@pytest.fixture(scope="module")
def found() -> xpu_branches.Places:
    return xpu_branches.places(torch_build().folder, xpu_branches.installed("triton"))


@pytest.mark.long("it reads all sources of the installed torch and triton")
def test_the_list_is_complete(found):
    hint = "see the new places, correct xpu_branches.toml, and make the pretended device answer like a real build"
    assert not xpu_branches.differences(found, RELEASE), hint


def test_each_place_says_how_the_pretended_device_answers():
    for place, entry in xpu_branches.listed(RELEASE).items():
        assert entry["answers"] in xpu_branches.ANSWERS, place
        if entry["answers"] in ("not reached", "differs"):
            assert entry["note"], place


NEW = """
def chosen(device):
    \"\"\"Another xpu.\"\"\"
    return 2 if device.type == "xpu" else 1
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NEW, "new: torch/_inductor/new.py:chosen asks 'xpu'"),
        ("import torch\nSIZE = 2 if torch.xpu._is_compiled() else 1", "new: torch/_inductor/new.py asks torch.xpu._is"),
        ("class A:\n    wide = lambda x: x.is_xpu and not x.is_cuda", "new: torch/_inductor/new.py:A asks .is_xpu"),
        ("import torch\ndef f():\n    return torch.version.xpu", "new: torch/_inductor/new.py:f asks torch.ver"),
    ],
)
def test_a_new_branch_is_noticed(tmp_path: Path, text: str, line: str):
    known = {"torch/_inductor/old.py:f": {"'xpu'": 1}}
    (tmp_path / "_inductor").mkdir()
    (tmp_path / "_inductor" / "new.py").write_text(text)
    new = xpu_branches.places(tmp_path)
    assert len(new) == 1
    (difference,) = [each for each in xpu_branches.differences(known | new, RELEASE) if "/new.py" in each]
    assert difference.startswith(line)


def test_a_second_question_in_a_known_place_is_noticed(found):
    place = "torch/_inductor/utils.py:get_num_sms"
    more = found | {place: found[place] | {"'xpu'": 1}}
    (difference,) = xpu_branches.differences(more, RELEASE)
    assert difference.startswith(f"changed: {place} asks ")


def test_modules_that_ask_for_the_build_when_imported_are_imported_before(found):
    """Otherwise a capture would make them decide for xpu, and import what only a build for xpu has."""
    asking = {
        place.partition(":")[0]
        for place, questions in found.items()
        if re.fullmatch(r"torch/[\w/]+\.py", place) and "torch.xpu._is_compiled" in questions
    }
    modules = {path.removesuffix(".py").replace("/", ".") for path in asking}
    assert modules <= set(xpu_build.DECIDE_AT_IMPORT)
