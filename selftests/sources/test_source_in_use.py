"""Which files Python imports as torch while a source is in use: small folders stand for torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from suites import environment

from conformance.sources.source_in_use import VARIABLE

CODE = """
import sys
from conformance.sources import source_in_use
from conformance.sources.torch_source import SourceError

tree, first, pinned = sys.argv[1:]
sys.path.insert(0, tree)
if pinned == "pinned":
    source_in_use.pin(tree)
sys.path.insert(0, first)
try:
    source_in_use.refuse_other_files("--torch-source")
    import torch.part
    print(torch.__file__, torch.part.__file__)
except SourceError as error:
    print(error)
"""


@pytest.fixture
def imported(tmp_path):
    for name in ("tree", "other"):
        (tmp_path / name / "torch").mkdir(parents=True)
        for file in ("__init__.py", "part.py"):
            (tmp_path / name / "torch" / file).write_text("")

    def run(first, pinned, *, used=True):
        source = {"word": "/src", "path": "/src", "commit": "", "name": "/src", "differs": 1}
        env = {VARIABLE: json.dumps(source | {"folder": str(tmp_path / "tree")}) if used else None}
        command = [sys.executable, "-c", CODE, str(tmp_path / "tree"), str(tmp_path / first), pinned]
        ran = subprocess.run(command, env=environment(env), capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    return run


def test_a_pinned_tree_comes_before_the_path(imported, tmp_path):
    tree = tmp_path / "tree/torch"
    assert imported("other", "pinned") == f"{tree}/__init__.py {tree}/part.py"


def test_other_files_are_refused(imported, tmp_path):
    sentence = imported("other", "")
    assert sentence.startswith(f"--torch-source /src: Python has imported {tmp_path}/other/torch/__init__.py, which")
    assert "leave out the conftest or plugin" in sentence


def test_without_a_source_every_torch_is_right(imported, tmp_path):
    assert imported("other", "", used=False).startswith(f"{tmp_path}/other/torch/__init__.py")
