"""The build backend: that of all parts, in ci/building/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "ci" / "building"))
from part_backend import build_sdist, build_wheel  # noqa: F401 - after the line above, for the frontend
