"""benchmarks/smoke.py: every script has a row, and every row a script."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from smoke import scripts, table, wrong_rows


def test_every_script_has_a_row() -> None:
    assert not wrong_rows(table(), scripts())


def test_a_row_of_a_script_that_is_gone_is_wrong() -> None:
    assert wrong_rows({"gone.py": {"args": []}}, set()) == ["gone.py: there is no such script"]


def test_a_script_without_a_row_is_wrong() -> None:
    assert wrong_rows({}, {"new.py"}) == ["new.py: it has no row"]
