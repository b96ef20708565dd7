#!/usr/bin/env python3
"""Checks that this checkout can be released under a tag: CONTRIBUTING.md says how to release.

`python ci/release.py v0.2.0` ends with status 1, and prints a line for each thing that is missing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import project_page

ROOT = Path(__file__).resolve().parent.parent


def problems(root: Path, tag: str) -> Iterator[str]:
    """A line for each thing that a release of this checkout needs and lacks."""
    [version] = re.findall(
        r'^__version__ = "([^"]+)"', (root / "conformance/__init__.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    if tag != f"v{version}":
        yield f"the tag is {tag}, and conformance.__version__ is {version}: the tag has to be v{version}"
    if not re.search(rf"^## {re.escape(version)}\b", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        yield f"CHANGELOG.md has no heading '## {version}': rename '## Unreleased', and begin a new one"
    if not project_page.repository(root):
        yield "pyproject.toml names no repository in [tool.conformance]: write its public address there, for URLs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag", metavar="TAG")
    found = list(problems(ROOT, parser.parse_args().tag))
    print("\n".join(found or ["the checkout can be released"]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
