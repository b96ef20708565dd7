"""ci/parts.py: the parts of the package, and their limits of lines."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "ci"))

import parts


def test_every_name_is_in_the_package():
    for part in parts.read().values():
        assert all((parts.PACKAGE / folder).exists() for folder in part["folders"])


def test_a_file_belongs_to_what_names_it_or_the_nearest_folder(tmp_path):
    table = {"rest": {"folders": ["."]}, "page": {"folders": ["report", "cli/view.py"]}}
    for name in ("report/a.js", "report/deep/b.py", "cli/view.py", "cli/show.py", "ops/test_x.py", "report/c.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\n\ntwo\n", encoding="utf-8")
    assert parts.count(tmp_path, table) == {"page": 6, "rest": 2}


def test_a_part_over_its_limit_fails(monkeypatch, capsys):
    table = parts.read()
    table["page"]["limit"] = 10
    monkeypatch.setattr(parts, "read", lambda: table)
    monkeypatch.setattr(sys, "argv", ["parts.py", "--check"])
    assert parts.main() == 1
    assert "over the limit: page" in capsys.readouterr().out
