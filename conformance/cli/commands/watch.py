"""`watch`: stays, and says after each save what changed for a case."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conformance
from conformance.cases.target_selection import select_targets
from conformance.cli.case_options import add_adhoc_options, adhoc_options
from conformance.cli.overlay_options import SOURCE_OPTION
from conformance.cli.watching.answers import Result
from conformance.cli.watching.saved_files import SavedFiles
from conformance.cli.watching.watcher import Answered, Begun, Watcher
from conformance.devices.environment import HIDE_DEVICES, torch_build
from conformance.devices.machine import Machine
from conformance.errors import ConformanceError
from conformance.review.diff import Difference, compare_texts
from conformance.sources.live_tree import use_live_tree
from conformance.sources.source_in_use import source_in_use
from conformance.terminal import diff_line, heading, styled

DESCRIPTION = """\
Stay in the foreground, and answer each save of a file of cases, or of a Python
file of torch, with what changed: facts, code and numerics. The first answer
compares with the stored snapshot, each further one with the answer before it.
Files are those of the cases, the modules of the project that they import, and
the torch of --torch-source, else the installed one. Ctrl-C ends it."""

EXAMPLES = """\
examples:
  python -m conformance watch flip/hflip-224-u8-contiguous --target cpu_avx2
  python -m conformance watch flip/vflip-224-f32-contiguous \\
      --target cpu_avx512,cuda_sm90 --torch-source ~/pytorch"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="CASE",
        help="a case id, a pytest node id, FILE::id, or an ad-hoc function; ids of this project come first",
    )
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="targets, separated by commas; default: that of the node id, or the first of the project's "
        "conformance_targets",
    )
    add_adhoc_options(parser)


class WatchError(ConformanceError, ValueError):
    """A word that names no case, no target or no function when the watch begins."""


def run(arguments: argparse.Namespace) -> int:
    """Raises WatchError, TargetError, WatchingError, SourceError, and KeyboardInterrupt at its end."""
    machine = Machine.detect()
    known = machine.targets()
    targets = [each.name for each in select_targets(known.values(), None, arguments.target)] if arguments.target else []
    has_native_gpu = any(machine.is_native(known[name]) and known[name].device != "cpu" for name in targets or known)
    with _ended_by_signals() as stack:
        folder = Path(tempfile.mkdtemp(prefix="conformance-watch-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "tree").mkdir()
        tree = use_live_tree(SOURCE_OPTION, folder / "tree")
        is_commit = tree is None and source_in_use() is not None
        edited = tree.source if tree is not None else None if is_commit else torch_build().folder
        request = {
            "folder": str(folder),
            "tables": list(arguments.overlay.targets),
            "targets": targets,
            "options": dataclasses.asdict(adhoc_options(arguments)),
        }
        files = SavedFiles(edited, Path(conformance.__file__).parent)
        # A process that sees a GPU pretends none. Where no target is that GPU's, the layers do not see it.
        environment = {} if has_native_gpu else HIDE_DEVICES
        watcher = Watcher(arguments.words, request, files, folder, tree, environment)
        stack.callback(watcher.close)
        _print_events(watcher)
    return 0


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[contextlib.ExitStack]:
    """Inside, a SIGTERM or the end of the terminal ends this process as a Ctrl-C does. The clean-up is undisturbed."""
    numbers = (signal.SIGTERM, signal.SIGHUP)

    def end(number: int, _frame: Any) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in numbers}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    with contextlib.ExitStack() as stack:
        try:
            yield stack
        finally:
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            stack.close()
            for number, handler in before.items():
                signal.signal(number, handler)


def _print_events(watcher: Watcher) -> None:
    """Prints what each save changes. Raises WatchError for a wrong word of the command line."""
    before: dict[str, str] = {}
    is_first = True
    for event in watcher.events():
        if isinstance(event, Begun):
            _print_begun(event)
            continue
        for result in event.results:
            if is_first and result.refused:
                raise WatchError(result.error)
            print("\n".join(_lines(result, before)))
            if result.text:
                before[result.name] = result.text
        _print_end(event)
        is_first = False


def _print_begun(begun: Begun) -> None:
    said = f"{', '.join(begun.saved)} saved" if begun.saved else ""
    anew = f"imports {begun.anew}" if begun.anew else ""
    if said or anew:
        print(f"\n{styled(time.strftime('%H:%M:%S'), 'dim')} {'; '.join(filter(None, (said, anew)))}", flush=True)


def _print_end(answered: Answered) -> None:
    if printed := answered.printed.strip("\n"):
        print(heading("# printed meanwhile"), printed, sep="\n")
    print(styled(f"answered in {answered.seconds:.1f} s; waiting for a save, Ctrl-C ends", "dim"), flush=True)


def _lines(result: Result, before: dict[str, str]) -> Iterator[str]:
    """What changed since the answer before, or against the snapshot."""
    if result.error:
        yield f"{result.name}: {result.error}" if result.name else result.error
        return
    old, names = before.get(result.name), ("before", "now")
    against = "nothing changed"
    if old is None:
        old, names, against = result.stored, ("stored", "now"), "as stored"
    difference = compare_texts(old, result.text) if old is not None else None
    numerics = result.numerics.lines() if result.numerics else []
    if difference is None:
        said = against if old is not None else "nothing is stored for this torch to compare with"
        yield f"{heading(f'# {result.name}')}: {said}; {result.origin}"
    else:
        yield heading(f"# {result.name}: {result.origin}")
        yield from _difference_lines(difference, names)
    if result.numerics and result.numerics.word == "wrong":
        yield from numerics
    else:
        yield from numerics[:1]


def _difference_lines(difference: Difference, names: tuple[str, str]) -> Iterator[str]:
    yield "facts changed:" if difference.facts else "facts unchanged"
    yield from difference.facts
    if difference.diff:
        yield ""
        yield from map(diff_line, (f"--- {names[0]}", f"+++ {names[1]}", *difference.diff[2:]))
        yield ""
