#!/usr/bin/env python3
"""How often `blame` names the functions that changed a case between two releases of torch, and how long that takes.

    python benchmarks/version_blame.py --new ~/venvs/torch215 --folder F              # one case of each of 20 groups
    python benchmarks/version_blame.py --new ~/venvs/torch215 --folder F --groups 1,4 # of these groups

The groups and their first examples are those of docs/changes-2.13-2.15.md; the old release is the installed one. The
answer for each case stays in F: a later call goes on. Whether the named functions are right is for a person to say,
who reads the difference of these functions: the answers have it.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.devices.targets import targets

PAGE = Path(__file__).resolve().parent.parent / "docs" / "changes-2.13-2.15.md"
_ITEM = re.compile(rf"([a-z_0-9]+/[\w.\-]+)-({'|'.join(targets())})\b")


@dataclass(frozen=True)
class Group:
    """`example`: the id of a case that changed for this cause, and `target`."""

    number: int
    title: str
    example: str
    target: str


def groups(page: str) -> Iterator[Group]:
    """The groups of the page that name an example, in its order."""
    for part in page.split("\n## Details", 1)[1].split("\n### ")[1:]:
        head = re.match(r"(\d+)\. (.*)", part)
        if head and (item := _ITEM.search(part)):
            yield Group(int(head[1]), head[2], item[1], item[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--new", required=True, help="a virtual environment, or another side of `blame`")
    parser.add_argument("--folder", type=Path, required=True, help="where the answers stay")
    parser.add_argument("--groups", default="", help="numbers of groups, such as 1,4; default: the first 20")
    arguments = parser.parse_args()
    found = list(groups(PAGE.read_text(encoding="utf-8")))
    wanted = [int(each) for each in arguments.groups.split(",") if each]
    found = [each for each in found if each.number in wanted] if wanted else found[:20]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("| group | case | status | functions | s | CPU s |\n|---|---|---:|---|---:|---:|")
    for group in found:
        file = arguments.folder / f"{group.number}.txt"
        if not file.is_file():
            blame(group, arguments.new, file)
        status, seconds, cpu, *text = file.read_text(encoding="utf-8").splitlines()
        named = [line.strip() for line in text if re.match(r"\s*torch/\S+\.py: \S", line)]
        print(
            f"| {group.number}. {group.title} | {group.example} on {group.target} | {status} | {'; '.join(named)} "
            f"| {seconds} | {cpu} |",
            flush=True,
        )
    return 0


def blame(group: Group, new: str, file: Path) -> None:
    """Writes status, seconds, CPU seconds and the text of the answer."""
    words = [sys.executable, "-m", "conformance", "blame", group.example, "--target", group.target, "--new", new]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    file.write_text(f"{ran.returncode}\n{seconds:.0f}\n{cpu:.0f}\n{ran.stdout}{ran.stderr}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
