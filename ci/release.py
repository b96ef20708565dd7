#!/usr/bin/env python3
"""Tags this checkout as a release, if nothing is missing: CONTRIBUTING.md says how to release.

`python ci/release.py v0.2.0 --check` prints a line for each thing that is missing, and ends with status 1 if one is.
`--dry-run` also prints the command that makes the tag; without both, it is run.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
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
        yield f"CHANGELOG.md has no heading '## {version}': write it with towncrier build --version {version}"
    if waiting := sorted(path.name for path in (root / "changes").glob("*.*.md")):
        yield f"changes/ has {', '.join(waiting)}: move them to CHANGELOG.md with towncrier build --version {version}"
    if not project_page.repository(root):
        yield "pyproject.toml names no repository in [tool.conformance]: write its public address there, for URLs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag", metavar="TAG", help="v and the version: v0.2.0")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--check", action="store_true", help="only say what is missing")
    only.add_argument("--dry-run", action="store_true", help="also print the command that makes the tag")
    arguments = parser.parse_args()
    found = list(problems(ROOT, arguments.tag))
    if not arguments.check and (changed := _git("status", "--porcelain").stdout):
        found.append(f"the checkout has changes that no commit has:\n{changed.rstrip()}")
    print("\n".join(found or ["the checkout can be released"]))
    words = ["tag", "--annotate", arguments.tag, "--message", f"conformance {arguments.tag.removeprefix('v')}"]
    if arguments.dry_run:
        print(shlex.join(["git", *words]))
    elif not (found or arguments.check):
        tagged = _git(*words)
        print(tagged.stderr, end="")
        return tagged.returncode
    return bool(found)


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
