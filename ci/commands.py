#!/usr/bin/env python3
"""Runs the commands of README, CONTRIBUTING, docs/ and examples/ where the pages say, and compares what they print.

    python ci/commands.py                      # all pages
    python ci/commands.py docs/running.md      # one
    python ci/commands.py --part 1/4           # a quarter of the pages
    python ci/commands.py --list               # the commands and their places; runs nothing
    python ci/commands.py --check              # for lint: each block has a mark; runs nothing

documented_commands.py says what a mark is. Everything happens in a temporary folder: clones of the checkout, with the
files that are changed in it; projects; a home with a checkout of PyTorch, made of the files of the installed torch.
Exit status 1 if a command fails, does not print what its page shows, or does not write the file that it names.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import documented_commands
from command_places import NOT_PRINTED, BeforeError, Places
from documented_commands import Command, MarkError

#: Seconds that a command may take.
LIMIT = 300
#: Lines of the output of a command that failed: so many from its begin and from its end.
FIRST, LAST = 20, 40
#: Options and signs before the name of a file that a command writes.
_WRITES = re.compile(r"(?:^|\s)(?:-o|--json|--conformance-report|--markdown|>)[ =]([\w./-]+)")
_TIME = re.compile(r"\d+(?:\.\d+)?(?= ?(?:s|ms|seconds|minutes)\b)")


def mismatch(shown: Sequence[str], output: str) -> str:
    """What of the lines that a page shows is not in the output; "" if all is. "…" stands for any text."""
    lines = [_plain(line) for line in output.splitlines()]
    for line in shown:
        if line.strip() == "…":
            continue
        wanted = ".*".join(re.escape(_plain(part)) for part in line.split("…"))
        if any(re.search(rf"(?<!\d){wanted}(?!\d)", each) for each in lines):
            continue
        figures = re.sub(r"\d+", r"\\d+", wanted)
        if near := next((each for each in lines if re.search(figures, each)), None):
            return f"a figure differs: the page has {line.strip()!r}, the run {near!r}"
        return f"the page shows {line.strip()!r}, and no line of the output has it"
    return ""


def _plain(text: str) -> str:
    """A text whose times are the same in each run, and whose blanks are single."""
    return " ".join(_TIME.sub("N", text).split())


def problem(command: Command, places: Places) -> str:
    """Runs a command. Returns what is wrong, in the first line, and the output; "" if all is right."""
    limit, wanted = int(command.value("limit") or LIMIT), int(command.value("status") or 0)
    try:
        status, output = places.run(command, limit)
    except BeforeError as error:
        return str(error)
    prints, ends_at = command.value("prints"), command.value("ends at")
    if status is None:
        wrong = f"it did not end within {limit} s"
    elif status == NOT_PRINTED:
        wrong = f"it ended, and did not print {ends_at!r}"
    elif status != wanted:
        wrong = f"it ended with status {status}, and not {wanted}"
    else:
        wrong = mismatch(() if prints == "anything" else (prints,) if prints else command.shown, output)
    folder, _ = places.place(command.page, command.place)
    # "-o all" is a file, a folder or a run
    kept = [folder, folder / ".conformance" / "runs"]
    missing = [name for name in _WRITES.findall(command.as_run()) if not any((each / name).exists() for each in kept)]
    if not wrong and missing:
        wrong = f"it did not write {missing[0]}"
    return f"{wrong}\n{output}" if wrong else ""


def why_not(command: Command) -> str:
    """Why a command is not run here; "" if it is."""
    by = command.value("run by")
    return command.value("not run") or (f"{by} runs it" if by else "")


def run_all(found: Sequence[Command], places: Places) -> int:
    """Runs the commands, a line for each. Returns the exit status."""
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for command in found:
        where = f"{command.page}:{command.line}"
        if why := why_not(command):
            counts["not run"] += 1
            print(f"not run  {where}: {command.text}: {why}", flush=True)
            continue
        began = time.monotonic()
        wrong = problem(command, places)
        counts["failed" if wrong else "ok"] += 1
        took = f"({time.monotonic() - began:.0f} s)"
        print(f"{'FAILED' if wrong else 'ok':<8} {where}: {command.as_run()} {took}", flush=True)
        if wrong:
            reason, _, output = wrong.partition("\n")
            lines = output.splitlines()
            if len(lines) > FIRST + LAST:
                lines[FIRST:-LAST] = [f"… {len(lines) - FIRST - LAST} lines"]
            print("\n".join(["", reason, *(f"    {line}" for line in lines), ""]), flush=True)
    results = f"{counts['ok']} ok, {counts['failed']} failed, {counts['not run']} not run here"
    print(f"{len(found)} commands: {results}; {time.monotonic() - start:.0f} s")
    return 1 if counts["failed"] else 0


def parts(found: dict[Path, list[Command]], count: int) -> list[list[Path]]:
    """The pages in so many parts that take about as long. The commands of a page follow each other."""
    seconds = {
        page: sum(int(each.value("limit") or LIMIT) for each in commands if not each.file and not why_not(each))
        for page, commands in found.items()
    }
    divided: list[list[Path]] = [[] for _ in range(count)]
    for page in sorted(seconds, key=lambda page: -seconds[page]):
        min(divided, key=lambda part: sum(seconds[each] for each in part)).append(page)
    return divided


def collected(pages: Sequence[Path]) -> dict[Path, list[Command]]:
    """The commands of each page. Raises MarkError with a line for each page that has a wrong mark."""
    found, wrong = {}, []
    for page in pages:
        try:
            found[page] = list(documented_commands.commands(page))
        except MarkError as error:  # noqa: PERF203 -- each page has its line
            wrong.append(str(error))
    if wrong:
        raise MarkError("\n".join(wrong))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all pages with commands")
    parser.add_argument("--list", action="store_true", help="print the commands and their places")
    parser.add_argument("--check", action="store_true", help="fail if a block has no mark, or a wrong one")
    parser.add_argument("--part", metavar="N/M", help="run the Nth of M parts of the pages")
    parser.add_argument("--line", type=int, action="append", help="run only what is in these lines; may be repeated")
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="the cache folder of the commands; default: a new one"
    )
    parser.add_argument("--section", metavar="HEADING", help="run only what is below this heading")
    parser.add_argument(
        "--installed", type=Path, metavar="FOLDER", help="run all in this new folder, with the packages of this Python"
    )
    options = parser.parse_args()
    try:
        found = collected([page.resolve() for page in options.pages] or documented_commands.pages())
    except MarkError as error:
        print(error, file=sys.stderr)
        return 1
    if options.check:
        return 0
    if options.part:
        number, count = map(int, options.part.split("/"))
        found = {page: found[page] for page in parts(found, count)[number - 1]}
    every = [each for commands in found.values() for each in commands]
    files = [each for each in every if each.file]
    chosen = [
        each
        for each in every
        if not each.file
        and (not options.line or each.line in options.line)
        and (not options.section or each.section == options.section)
    ]
    if not chosen:
        parser.error("no command is selected: --list prints all")
    if options.list:
        for each in (*files, *chosen):
            place = "not run" if why_not(each) else each.place
            print(f"{each.page}:{each.line}: {place}: {each.file or each.text}")
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it, and its children
    folder = Path(tempfile.mkdtemp(prefix="commands-")).resolve()
    try:
        return run_all(chosen, Places(folder, files, options.cache and options.cache.resolve(), options.installed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
