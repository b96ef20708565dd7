"""Generated texts depend on nothing but the case, the target and the versions: a few items, all varied at once.

Where the text is the stored one, no plain run is needed: the suite compares its texts with the stored ones.

All items and all variations: python ci/determinism.py.
"""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "ci" / "determinism.py"


def ran(*arguments):
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_texts_are_equal_with_all_varied_at_once():
    result = ran("--quick", "--only", "together", "--stored")
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"\| [1-9]\d+ \| 0 \|", result.stdout), result.stdout


def test_unknown_variation():
    result = ran("--only", "weather")
    assert result.returncode == 2
    assert "unknown variation 'weather'; known are again" in result.stderr
