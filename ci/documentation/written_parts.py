#!/usr/bin/env python3
"""Writes the parts of pages that docstrings, parsers and data say: names, keywords, options, formats, kinds.

    python ci/documentation/written_parts.py

A selftest fails where a page says something else.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import kinds
import native

import conformance
from conformance.capture.offline.compiler import STAGES
from conformance.cli.main import COMMANDS
from conformance.devices.cross_compiler import toolchain_of
from conformance.devices.targets import GPUS, targets
from conformance.harness.configuration.pytest_options import OPTIONS
from conformance.settings import long_name

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Public names without a docstring → the file that has a comment above them.
CONSTANTS = {
    "EDGE_SIZES": "conformance/cases/inputs.py",
    "FLUSHED": "conformance/cases/tolerance_policy.py",
    "REDUCTIONS": "conformance/numerics/torch_references.py",
}
_BY = "written by ci/documentation/written_parts.py"
#: Definitions of run.json whose keys have a table of their own.
_WITH_TABLES = ("run.json", "item", "facts")
_SCHEMAS = ROOT / "conformance" / "storage" / "schemas"


def option_rows(*, are_long: bool) -> list[str]:
    """Markdown: a row for each option of pytest with its help, under its long or its short name."""
    rows = []
    for name, keywords in OPTIONS.items():
        value = keywords.get("metavar") or "|".join(keywords.get("choices", ()))
        option = long_name(name) if are_long else f"--{name}"
        rows.append(_row(f"{option}{' ' if value else ''}{value}", str(keywords["help"])))
    return rows


def _native_rows() -> list[str]:
    """Markdown: a row for each part of ci/native.toml."""
    return [
        f"| `{name}` | {run.date}, {run.machine.split(';')[0]}, torch {run.torch} | {run.line.split('; next')[0]} "
        f"| {', '.join(run.failed) or 'nothing'} |"
        for name, run in native.read().items()
    ]


def parts() -> dict[str, dict[str, list[str]]]:
    """Page → name of a part → its lines."""
    return {
        "public-names": {
            "names": ["| name | |", "|---|---|", *(_row(name, _said_of(name)) for name in conformance.__all__)],
            "keywords": ["```text", inspect.getdoc(conformance.case) or "", "```"],
            "options": ["| option | |", "|---|---|", *option_rows(are_long=False)],
            "commands": ["| command | |", "|---|---|", *(_row(name, said) for name, (_, said) in COMMANDS.items())],
        },
        "kinds": {"counts": kinds.counts(kinds.kinds()), "kinds": kinds.tables(kinds.kinds())},
        "deviceless": {
            "native": ["| part | run | last line | red |", "|---|---|---|---|", *_native_rows()],
            "targets": _targets(),
        },
        "formats": {
            "files": _files(),
            "run": _keys("run", "run.json"),
            "item": _keys("run", "item"),
            "facts": _keys("run", "facts"),
            "report": _keys("output", "report"),
        },
    }


def filled(page: str, text: str) -> str:
    """The text of a page with its parts written anew."""
    for part, lines in parts()[page].items():
        begin, end = f"<!-- {part}: {_BY} -->", f"<!-- end of {part} -->"
        before, _, rest = text.partition(begin)
        text = "\n".join([f"{before}{begin}", "", *lines, "", f"{end}{rest.partition(end)[2]}"])
    return text


def _row(name: str, text: str) -> str:
    return "| `{}` | {} |".format(*(cell.replace("|", "\\|") for cell in (name, text)))


def _said_of(name: str) -> str:
    """The first line of a docstring, or the first sentence of the comment above a constant."""
    if name not in CONSTANTS:
        return (inspect.getdoc(getattr(conformance, name)) or "").partition("\n")[0]
    source = (ROOT / CONSTANTS[name]).read_text(encoding="utf-8")
    [comment] = re.findall(rf"((?:^#: .*\n)+)^{name} ?[=:]", source, re.MULTILINE)
    return re.split(r"(?<=\.)\s", " ".join(comment.replace("#: ", "").split()))[0]


def _targets() -> list[str]:
    """A table of what is known of each target. Code is generated for all, and each runs natively on its device."""
    rows = ["| target | product | code | built by | emulated by | values |", "|---|---|---|---|---|---|"]
    for name, target in targets().items():
        tools = toolchain_of(target.isa)
        is_gpu = target.device in GPUS
        built = f"Triton: {STAGES[target.family][-1]}" if is_gpu else tools.compiler if tools else "g++"
        emulated = "Triton's interpreter" if is_gpu else tools.emulator if tools else "nothing"
        code = "stored" if target.stores_code else "not stored"
        rows.append(f"| `{name}` | {target.description} | {code} | {built} | {emulated} | {target.confirmed} |")
    return rows


def _files() -> list[str]:
    """A table of the files of a run's folder."""
    definitions = json.loads((_SCHEMAS / "run.json").read_text(encoding="utf-8"))["$defs"]
    rows = [_row(name, _said_of_key(value)) for name, value in definitions.items() if name not in _WITH_TABLES]
    record = _row("items/<case>-<target>.json", definitions["item"]["description"])
    return ["| file | |", "|---|---|", _row("run.json", definitions["run.json"]["description"]), record, *rows]


def _keys(schema: str, definition: str) -> list[str]:
    """A table of the keys of a definition: what the schema says of each, its choices, and its own keys."""
    whole = json.loads((_SCHEMAS / f"{schema}.json").read_text(encoding="utf-8"))
    properties = whole["$defs"][definition]["properties"]
    return ["| key | |", "|---|---|", *(_row(key, _said_of_key(value)) for key, value in properties.items())]


def _said_of_key(value: Mapping[str, Any]) -> str:
    inner = [value, value.get("items", {}), value.get("additionalProperties", {})]
    own = next((each["properties"] for each in inner if isinstance(each, dict) and "properties" in each), {})
    keys = [f"`{key}` ({said})" if (said := _said_of_key(each)) else f"`{key}`" for key, each in own.items()]
    choices = [f"`{choice}`" for choice in value.get("enum", ())]
    return ": ".join(filter(None, [value.get("description", ""), ", ".join(keys or choices)]))


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for name in parts():
        page = DOCS / f"{name}.md"
        page.write_text(filled(name, page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
