"""Makes the map of which items execute which lines, in several processes, and keeps it in the suite's cache folder.

The map belongs to a torch, to the sources that get mutants, and to the suite without its cases. Where only files of
cases changed, their items are made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sympy.core.cache import clear_cache

import conformance
from conformance.devices.cache_folder import cache_folder
from mutation.reached import Collector, Reached, joined, lines_traced
from mutation.sources import Source
from mutation.suite import TARGETS, Suite

#: The rooms of the suite that decide which text an item has.
_ROOMS = ("capture", "cases", "devices", "facts", "normalize")
#: What torch makes once a process is made by these, before anything is traced and before a mutant is planted. They have
#: no gradients: autograd does not work in a copy of a process that has run a backward.
_WARM_UP = ("flip/hflip-224-u8-contiguous", "loss/bce_with_logits-mean-f32-forward")


def warm_up(suite: Suite) -> None:
    """Generates two cases for each target."""
    for case in _WARM_UP:
        for target in TARGETS:
            if (case, target) in suite.items():
                suite.text((case, target))


def reached(suite: Suite, sources: Sequence[Source], workers: int, cases: int) -> Reached:
    """The map: from the cache where it is there, else made. Warm up before. Prints how far it is.

    `cases`: so many cases of each function of the suite; 0 for all.
    """
    path = cache_folder() / "mutants" / _key(sources)
    old = None
    with contextlib.suppress(OSError, ValueError):
        old = Reached.load(path)
    digests = {item: _digest([suite.cases[item[0]].file]) for item in suite.items()}
    wanted = suite.items(cases)
    kept: set[tuple[str, str]] = set()
    if old is not None:
        rows = zip(old.items, old.digests, old.texts, strict=True)
        kept = {item for item, digest, text in rows if text and digests.get(item) == digest}
    missing = [item for item in wanted if item not in kept]
    if missing or old is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"tracing {len(missing)} items in {workers} processes", file=sys.stderr, flush=True)
        parts = _in_processes(suite, sources, missing, digests, workers, path)
        old = joined(parts if old is None else [*parts, old.only(kept)])
        old.save(path)
    return old.only(wanted)


def _in_processes(
    suite: Suite,
    sources: Sequence[Source],
    items: Sequence[tuple[str, str]],
    digests: dict[tuple[str, str], str],
    workers: int,
    path: Path,
) -> list[Reached]:
    started = []
    for number in range(workers):
        part = path.with_name(f"{path.name}-part{number}-{os.getpid()}")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _trace(suite, sources, items[number::workers], digests, part)
                status = 0
            finally:
                os._exit(status)
        started.append((child, part))
    parts = []
    for child, part in started:
        if os.waitpid(child, 0)[1]:
            raise RuntimeError("a process that traced items failed; its message is above")
        parts.append(Reached.load(part))
        for suffix in (".json.gz", ".npz"):
            part.with_suffix(suffix).unlink()
    return parts


def _trace(
    suite: Suite,
    sources: Sequence[Source],
    items: Sequence[tuple[str, str]],
    digests: dict[tuple[str, str], str],
    part: Path,
) -> None:
    collector = Collector({str(source.path): source.text.count("\n") + 1 for source in sources})
    begin = time.monotonic()
    for number, item in enumerate(items, 1):
        start, text = time.monotonic(), ""
        clear_cache()  # of SymPy: else only the first item executes the rules of an expression
        with lines_traced([str(source.path) for source in sources]) as lines:
            try:
                text = suite.text(item)
            except Exception as error:  # noqa: BLE001 -- compiling may raise anything; the item takes no part
                message = f"  no code: {item[0]} on {item[1]}: {type(error).__name__}: {error}"
                print(message.partition("\n")[0][:300], file=sys.stderr, flush=True)
        collector.add(item, text, time.monotonic() - start, digests[item], lines)
        if number % 100 == 0:
            print(f"  {number} of {len(items)}, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    collector.reached().save(part)


def _key(sources: Sequence[Source]) -> str:
    suite = sorted(path for room in _ROOMS for path in (Path(conformance.__file__).parent / room).rglob("*.py"))
    return _digest([*(source.path for source in sources), *suite], *TARGETS)


def _digest(files: Sequence[Path], *more: str) -> str:
    state = hashlib.sha256(repr((sys.version_info[:2], more)).encode())
    for file in files:
        state.update(f"\n{file}\n".encode() + file.read_bytes())
    return state.hexdigest()[:16]
