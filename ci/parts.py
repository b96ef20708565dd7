"""Counts the lines of each part of the package that parts.toml names: `python ci/parts.py`, a line for each part.

`--check` is for lint: it fails where a part has more lines than its limit.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "ci" / "parts.toml"
PACKAGE = ROOT / "conformance"
#: Of the package, and in no part: cases, and what is stored of them.
OUTSIDE = ("ops", "models", "sweep", "expected_code", "expected_binary", "coverage_maps", "known_failures")
_SUFFIXES = (".py", ".js", ".cpp", ".h")


def read(file: Path = FILE) -> dict[str, dict[str, Any]]:
    """Name of a part → its keys."""
    return tomllib.loads(file.read_text(encoding="utf-8"))["parts"]


def part_of(path: Path, parts: dict[str, dict[str, Any]]) -> str:
    """The part of a file: the one that names it, or the nearest folder above it. `path`: relative to the package."""
    named = {Path(folder): name for name, part in parts.items() for folder in part["folders"]}
    return next(named[each] for each in (path, *path.parents) if each in named)


def count(package: Path = PACKAGE, parts: dict[str, dict[str, Any]] | None = None) -> Counter[str]:
    """Part → its lines that are not blank."""
    parts = parts or read()
    lines: Counter[str] = Counter()
    for file in sorted(package.rglob("*")):
        path = file.relative_to(package)
        if file.suffix in _SUFFIXES and path.parts[0] not in OUTSIDE:
            text = file.read_text(encoding="utf-8")
            lines[part_of(path, parts)] += sum(1 for line in text.splitlines() if line.strip())
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a part is over its limit")
    options = parser.parse_args()
    parts = read()
    lines = count(parts=parts)
    over = [name for name in parts if lines[name] > parts[name]["limit"]]
    for name, part in parts.items():
        if not options.check or name in over:
            print(f"{name:<10} {lines[name]:>7,} lines, limit {part['limit']:,}, aim {part['aim']:,}: {part['holds']}")
    if over and options.check:
        print(
            f"over the limit: {', '.join(over)}. Remove as much as is added, or say in the commit why the limit rises"
        )
    return int(bool(over and options.check))


if __name__ == "__main__":
    sys.exit(main())
