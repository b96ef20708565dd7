"""The line of a file of cases that declares something wrongly."""

from __future__ import annotations

import os

import pytest

from conformance.cases.roots import CASE_ROOTS
from conformance.harness.selection.collected_declarations import declaration_line

FILE = """
from conformance import tensor

WRONG = tensor(2, colour="red")
"""


@pytest.mark.parametrize("folder", CASE_ROOTS, ids=lambda folder: folder.name)
def test_the_line_is_that_of_the_case_in_each_folder_of_this_package(folder):
    file = folder / "test_planted.py"
    with pytest.raises(ValueError, match="has no property 'colour'") as raised:
        exec(compile(FILE, str(file), "exec"), {})  # noqa: S102 - as if the folder had this file
    assert declaration_line(raised) == f"{os.path.relpath(file)}:4"
