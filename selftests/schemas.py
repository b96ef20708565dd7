"""Checks JSON against the schemas that the package has: a key that docs/formats.md does not document is an error."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema

#: The files of a run's folder that are no record of an item, and have a definition of their own.
OF_RUN = (
    "run.json",
    "selected.json",
    "without_quick.json",
    "unused.json",
    "durations.json",
    "audit.json",
    "review.json",
)


@functools.cache
def schema(name: str) -> Any:
    """`name`: "run", "output" or "archive"."""
    text = resources.files("conformance.storage").joinpath(f"schemas/{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


def problems(name: str, definition: str, data: Any) -> list[str]:
    """What is wrong with the data, a line for each; `definition`: one of the schema's."""
    whole = schema(name)
    part = {"$schema": whole["$schema"], "$ref": f"#/$defs/{definition}", "$defs": whole["$defs"]}
    validator = jsonschema.Draft202012Validator(part)
    return [f"{definition}: {each.json_path}: {each.message}" for each in validator.iter_errors(data)]


def run_problems(folder: Path) -> Iterator[str]:
    """What is wrong with the JSON files of a run's folder."""
    for path in sorted(folder.rglob("*.json")):
        name = path.relative_to(folder).as_posix()
        if name.startswith("failures/"):
            continue
        definition = "item" if name.startswith("items/") else name
        if definition not in ("item", *OF_RUN):
            yield f"{name} has no schema"
            continue
        for problem in problems("run", definition, json.loads(path.read_text(encoding="utf-8"))):
            yield f"{name}: {problem}"
