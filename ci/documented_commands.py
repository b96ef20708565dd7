#!/usr/bin/env python3
"""Runs the commands that README.md and docs/ show, in an empty project, with the conformance that this Python has.

    python ci/documented_commands.py --list               # each command, with where it runs, or why it does not
    python ci/documented_commands.py README.md            # the commands of one page
    python ci/documented_commands.py --part 1/2           # every second command

Takes the fenced blocks of commands. A block below `<!-- not run: REASON -->` is not run; RULES say the same of commands
that need a machine, a checkout of PyTorch or hours. Other commands of pytest run for one operator. Exit status 1 if a
command fails, or runs longer than LIMIT.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Seconds for one command.
LIMIT = 300
#: What a command contains → why it is not run.
RULES = {
    r"…|\b(RUN|CASE|FILE|INDEX|DIR|NAME)\b|\$ITEM|<\w+>|\[.*\]": "it has a placeholder",
    r"~/|--source|--torch-source|my_model|test_model|change\.diff|cpu_run|artifacts/|ours/|\bvenvs\b": (
        "it needs files of the reader"
    ),
    r"\b(pip install|git|ci/tox|python -m build)\b": "it installs or builds: other rows of the matrix do",
    r"--require-device|--device cuda|conformance confirm|benchmarks/|ci/": "it needs a device, a checkout or hours",
    r"conformance\.(models|sweep)|--audit|explore|minimise|coverage|bisect|blame": "it runs for long: selftests do it",
    r"\bbert/|=pallas|conformance/ops/": "it needs packages of models or of a backend, or a checkout",
    r"--backend|--device (acme|xpu)|--splits|--baseline|merge|review|accept\b|--compare|view|watch|bench": (
        "it needs another device, or the run of another command"
    ),
}
#: What every other run of pytest is given: the whole suite takes an hour.
REDUCED = ["--quick", "-k", "hflip", "--target", "cpu_avx2"]
_MARK = re.compile(r"<!-- not run: (.+?) -->\s*$")
_FENCE = re.compile(r"^```(?:console|sh|shell|bash)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:\$ )?((?:[A-Z_]+=\S+ )*(?:python3?|pytest|pip|ci/tox|git) .*)")


@dataclass(frozen=True)
class Command:
    """A command that a page shows. `why_not`: why it is not run; "" if it is."""

    page: str
    line: int
    text: str
    why_not: str = ""


def commands(page: str, text: str) -> Iterator[Command]:
    """The commands in the fenced blocks of a page."""
    for block in _FENCE.finditer(text):
        mark = _MARK.search(text[: block.start()])
        first = text[: block.start()].count("\n") + 2
        lines = block[1].splitlines()
        has_prompts = any(line.startswith("$ ") for line in lines)
        for number, line in enumerate(lines):
            found = _COMMAND.fullmatch(line)
            if not found or (has_prompts and not line.startswith("$ ")):
                continue
            words = re.sub(r"\s{2,}#.*|\s# .*", "", found[1]).strip()
            rule = next((why for pattern, why in RULES.items() if re.search(pattern, words)), "")
            yield Command(page, first + number, words, mark[1] if mark else rule)


def pages() -> list[Path]:
    """README.md and docs/. ci/examples.py runs what the examples show."""
    found = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return sorted(path for path in found if not path.name.startswith("changes-"))


def reduced(command: str) -> list[str]:
    """The words of a command; those of a run of the suite with REDUCED."""
    words = shlex.split(command)
    is_run = any(word == "pytest" for word in words) and not any("::" in word for word in words)
    if not is_run:
        return words
    with_installed = words if "--pyargs" in words else [*words, "--pyargs", "conformance.ops.test_flip"]
    return [*with_installed, *REDUCED]


def run(command: Command, folder: Path) -> str:
    """Runs a command in a folder. Returns what was wrong; "" if it ended well."""
    words = reduced(command.text)
    if words[:3] == ["python", "-m", "conformance"]:
        words[0] = sys.executable
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "EXPECTTEST_ACCEPT")}
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    if words[0] == "pytest":
        words[:1] = [sys.executable, "-m", "pytest", "-p", "conformance.plugin"]
    try:
        ran = subprocess.run(
            words,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"runs longer than {LIMIT} s"
    if not ran.returncode:
        return ""
    last = (ran.stdout + ran.stderr).strip().splitlines()[-1:]
    return f"ended with status {ran.returncode}: {''.join(last)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="README.md or docs/….md; all without it")
    parser.add_argument("--list", action="store_true", help="only print the commands")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="run the I-th of N parts")
    options = parser.parse_args()
    chosen = [path for path in pages() if not options.pages or str(path.relative_to(ROOT)) in options.pages]
    if not chosen:
        parser.error(f"no page is named {options.pages[0]!r}: name one as README.md or docs/running.md")
    found = [each for path in chosen for each in commands(str(path.relative_to(ROOT)), path.read_text("utf-8"))]
    if options.list:
        for each in found:
            print(f"{each.page}:{each.line}: {each.text}{f'   [not run: {each.why_not}]' if each.why_not else ''}")
        return 0
    part, parts = map(int, options.part.split("/"))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="commands-") as folder:
        for each in [each for each in found if not each.why_not][part - 1 :: parts]:
            begun = time.monotonic()
            wrong = run(each, Path(folder))
            failed += bool(wrong)
            print(
                f"{time.monotonic() - begun:4.0f} s  {each.page}:{each.line}: {each.text}: {wrong or 'ok'}", flush=True
            )
    print(f"{failed} commands failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
