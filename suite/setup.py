"""What pyproject.toml cannot say: the version of the harness, which this distribution requires exactly, and URLs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "ci"))

import project_page  # noqa: E402  # after the line above

INIT = (ROOT / "conformance/__init__.py").read_text(encoding="utf-8")
[VERSION] = re.findall(r'^__version__ = "([^"]+)"', INIT, re.MULTILINE)

setup(
    version=VERSION,
    install_requires=[f"conformance=={VERSION}"],
    project_urls=project_page.urls(project_page.repository(ROOT / "harness")),
)
