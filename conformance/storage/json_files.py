"""The files that a command writes with --json, and reads again to compare two of them. Each names its format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.atomic_files import write_atomically


def write_json_file(path: Path, format_: str, data: Mapping[str, Any]) -> None:
    """Raises OSError; the old file then stays. `format_`: becomes the first entry."""
    write_atomically(path, json.dumps({"format": format_, **data}, indent=1) + "\n")


def read_json_file(path: Path, format_: str, command: str, error: type[Exception]) -> dict[str, Any]:
    """The object in a file. `command`: the one that writes such files, for messages.

    Raises `error` for a file that is missing, or whose format is another one.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise error(f"{path}: {problem.strerror}: name a file that `{command} --json` wrote") from problem
    except ValueError as problem:
        raise error(f"{path} is not JSON: name a file that `{command} --json` wrote") from problem
    found = data.get("format") if isinstance(data, dict) else None
    if found != format_:
        reason = f"its format is {found!r}, not {format_!r}" if found else f"it has no format {format_!r}"
        raise error(f"{path} was not written by `{command} --json`: {reason}")
    return dict(data)
