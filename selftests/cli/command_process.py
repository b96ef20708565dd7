"""A command in a process of its own, with this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def process(*words, **options):
    """Runs `python -m conformance`. `options`: of subprocess.run; `env` is laid over the environment."""
    environ = os.environ | {"PYTHONPATH": str(ROOT)} | options.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "conformance", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        **options,
    )
