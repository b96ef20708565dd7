"""Verdicts on findings, and which of them are one bug. The same procedure for all fuzzers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from fuzzers.tools import HERE, ROOT

VERDICTS = ("confirmed", "false alarm", "unclear")
FILE = "verdicts.toml"
#: Seconds for one finding.
_JUDGE, _MINIMISE = 600, 1200
#: What two messages of one bug may differ in.
_VARIES = (
    (re.compile(r"(?<![\w.])/[\w./+-]+"), "FILE"),
    (re.compile(r"0x[0-9a-f]+"), "N"),
    (re.compile(r"\b(arg|buf|var_node_|tmp|xindex|in_ptr|out_ptr|s|u|v|i)_?\d+\b"), r"\1N"),
    (re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?"), "N"),
    (re.compile(r"(N, ?)+N"), "N"),
)
_NO_OPERATORS = {"program", "Model", "load", "print", "compile", "tensor", "full", "int", "float", "bool", "slice"}


@dataclass(frozen=True)
class Finding:
    """`identity`: fuzzer and name. `key`: the same for findings that are one bug. `by`: who gave the verdict."""

    identity: str
    folder: Path
    verdict: str
    reason: str
    key: str
    by: str


def judge(folder: Path, python: Path, target: str, variables: Mapping[str, str], *, minimise: bool) -> None:
    """Writes the rule's verdict beside a finding, and its smallest program unless it is a false alarm."""
    place = folder / "judged.json"
    environment = os.environ | dict(variables) | {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
    if not place.exists():
        found = _judged(folder, python, environment)
        place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    about, found = _read(folder / "about.json"), _read(place)
    if (
        not minimise
        or found["verdict"] == "false alarm"
        or about.get("minimised")
        or not (folder / "script.py").exists()
    ):
        return
    static = folder / "static.py"  # `minimise` knows no sizes that vary
    static.write_text((folder / "script.py").read_text(encoding="utf-8").replace("dynamic=True", "dynamic=False"))
    words = ["-m", "conformance", "minimise", static.name, "--target", target, "--output", "smallest.py"]
    environment |= {"PYTHONPATH": str(ROOT)}
    text = _output([str(python), *words, "--trials", "80"], folder, environment, _MINIMISE)[1]
    (folder / "smallest.txt").write_text(text, encoding="utf-8")
    blamed = re.search(r"^wrong from: (.+)$", text, re.MULTILINE)
    about |= {"minimised": "yes" if re.search(r"^\d+ steps → \d+: ", text, re.MULTILINE) else "no"}
    about |= {"blamed": blamed[1]} if blamed else {}
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _judged(folder: Path, python: Path, environment: Mapping[str, str]) -> dict[str, str]:
    if not (folder / "script.py").exists():
        return {"verdict": "unclear", "reason": "it could not be written as a script", "kind": "", "error": ""}
    progress = folder / "progress.json"
    status, text = _output(
        [str(python), str(HERE / "judge.py"), "script.py", str(progress)], folder, environment, _JUDGE
    )
    found = _read(progress)
    progress.unlink(missing_ok=True)
    if found.get("stage") == "done":
        return found
    how = f"the process ended with status {status}" if status is not None else f"it still ran after {_JUDGE} s"
    at = found.get("stage", "")
    if at == "compiled" and status is not None and status < 0:
        return {"verdict": "confirmed", "reason": f"{how}, where eager runs", "kind": "crash", "error": how}
    return {"verdict": "unclear", "reason": f"{how}, in the stage {at!r}: {text[-200:]}", "kind": "", "error": ""}


def findings(folder: Path) -> Iterator[Finding]:
    """All findings below the folder of a race, with a person's verdict where there is one."""
    persons = read_persons(folder)
    for place in sorted(folder.glob("*/findings/*/judged.json")):
        identity = f"{place.parents[2].name}/{place.parent.name}"
        found, about = _read(place), _read(place.parent / "about.json")
        person = persons.get(identity, {})
        key = _key(place.parent, found, about)
        yield Finding(
            identity,
            place.parent,
            person.get("verdict", found["verdict"]),
            person.get("reason", found["reason"]),
            person.get("bug", key),
            "person" if "verdict" in person else "rule",
        )


def read_persons(folder: Path) -> dict[str, dict[str, str]]:
    """What the person wrote. Raises ValueError for a verdict that is none."""
    place = folder / FILE
    persons = tomllib.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    for identity, each in persons.items():
        if each.get("verdict", VERDICTS[0]) not in VERDICTS:
            raise ValueError(f"{place}: {identity}: a verdict is one of {', '.join(VERDICTS)}")
    return persons


def offer(folder: Path, unclear: list[Finding]) -> None:
    """Writes the file for a person's verdicts, unless it is there."""
    place = folder / FILE
    if place.exists() or not unclear:
        return
    head = "# A person's verdicts: confirmed, false alarm or unclear. Findings with the same `bug` are one bug.\n"
    entries = [f'\n["{each.identity}"]  # {each.reason[:90]!r}\nverdict = "unclear"\n' for each in unclear]
    place.write_text(head + "".join(entries), encoding="utf-8")


def _key(folder: Path, found: Mapping[str, str], about: Mapping[str, str]) -> str:
    """What is the same for findings of one bug: the error, else the part to blame, else operators and kind."""
    if found.get("error"):
        return normalised(found["error"])
    part = re.sub(r" \(application .*", "", about.get("blamed", ""))
    if ", " in part:
        return part
    smallest = folder / "smallest.py"
    script = smallest if smallest.exists() else folder / "script.py"
    text = script.read_text(encoding="utf-8") if script.exists() else folder.name
    body = re.search(r"^( *)def (?:program|fuzzed_program|forward)\(.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r"(\w+)\(", body[0] if body else text)
    return f"{found.get('kind', '')}: {', '.join(sorted({name.removesuffix('_') for name in names} - _NO_OPERATORS))}"


def normalised(text: str) -> str:
    for pattern, replacement in _VARIES:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())[:200]


def _output(command: list[str], folder: Path, environment: Mapping[str, str], limit: float) -> tuple[int | None, str]:
    """Status and output; None if it took too long."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def _read(place: Path) -> dict[str, Any]:
    return json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
