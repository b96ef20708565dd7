"""How good the suite is, as a number: plants changes into Inductor, and counts those that the suite finds.

Each mutant is one small change of one function of Inductor. It is planted into a fresh copy of this process, which
generates cases that execute the changed line, and runs numerics and requirements of those whose code changed. Stored
code takes no part: it finds every change and proves nothing. docs/mutants.md says how to read the result.

    python benchmarks/mutants.py --sample 100 --seed 1      # 20 minutes on two cores, after the first run made the map
    python benchmarks/mutants.py --only _inductor/lowering.py:pow --sample 20
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation import report, survivors
from mutation.baseline import Baseline
from mutation.campaign import judged
from mutation.judging import EVERY_ITEM, Judgement, Limits, candidates, item_name, judge
from mutation.making import Mutant
from mutation.map_making import reached, warm_up
from mutation.planting import Functions
from mutation.pool import CPU_SECONDS, Note, Pool
from mutation.sampling import Population, population
from mutation.sources import sources
from mutation.suite import Suite

from conformance import atomic_files
from conformance.devices.environment import torch_build

#: CPU seconds that one mutant may take with --items.
_SECONDS_FOR_EVERY_ITEM = 900
_SURVIVORS = Path(__file__).parent / "mutants_survivors.toml"


def main() -> None:
    arguments = _arguments()
    start = time.monotonic()
    try:
        sorted_survivors = survivors.read(arguments.survivors)
    except survivors.SurvivorsError as error:
        sys.exit(str(error))
    suite = Suite()
    import torch
    from sympy.core.cache import clear_cache

    files = sources(Path(torch.__file__).parent)
    warm_up(suite)
    items = reached(suite, files, arguments.workers, arguments.cases)
    everything = population(files, items)
    clear_cache()  # of SymPy: it may hold what a mutant would compute
    functions = Functions([str(source.path) for source in files])
    gc.collect()
    gc.freeze()  # so that copies of this process share its memory
    _say(f"ready after {time.monotonic() - start:.0f} s")
    baseline = Baseline(suite, items)
    results = [] if arguments.again is None else earlier(arguments.again, everything)
    for result in sample(suite, everything, functions, baseline, arguments):
        results.append(result)
        joined = report.sort_out(results, sorted_survivors)
        if arguments.json:
            _write(arguments.json, arguments.seed, joined)
    counts = {area: len(mutants) for area, mutants in everything.by_area.items()}
    print(report.text(report.sort_out(results, sorted_survivors), everything.unreached, counts))
    _say(f"{time.monotonic() - start:.0f} s")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=_positive, default=100, metavar="N", help="stop after N that change some code")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which mutants are taken, and in which order")
    parser.add_argument("--workers", type=_positive, default=os.cpu_count(), metavar="N")
    parser.add_argument("--cases", type=_natural, default=0, metavar="N", help="use N cases of each function; 0: all")
    parser.add_argument("--minutes", type=_positive, default=None, metavar="N", help="stop the sample after N minutes")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants whose id contains TEXT")
    parser.add_argument("--again", type=Path, metavar="FILE", help="judge the survivors in a --json file once more")
    parser.add_argument(
        "--items",
        type=_expression,
        metavar="REGEX",
        help="try every item whose name contains REGEX and that executes the changed line, and no others",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each mutant and what came of it")
    parser.add_argument("--survivors", type=Path, default=_SURVIVORS, metavar="FILE", help="survivors that are sorted")
    return parser.parse_args()


def _write(file: Path, seed: int, results: Sequence[report.Result]) -> None:
    """Writes all results so far, so that an interrupted sample keeps them."""
    data = {"torch": torch_build().version, "seed": seed, "mutants": [report.to_json(each) for each in results]}
    atomic_files.write_atomically(file, json.dumps(data, indent=1), survives_power_loss=False)


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return value


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _natural(text: str) -> int:
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError("it must be 0 or more")
    return value


def sample(
    suite: Suite, everything: Population, functions: Functions, baseline: Baseline, arguments: argparse.Namespace
) -> Iterator[tuple[Mutant, Judgement]]:
    """The mutants of a seed, in order, until enough of them changed some code."""
    order = everything.order(arguments.seed) if arguments.again is None else survivors_of(arguments.again, everything)
    mutants = (mutant for mutant in order if arguments.only in mutant.id)
    changed, begin = 0, time.monotonic()
    limits = EVERY_ITEM if arguments.items else Limits()
    pool = Pool(arguments.workers, _SECONDS_FOR_EVERY_ITEM if arguments.items else CPU_SECONDS)
    run = functools.partial(_judge, suite, everything, functions, baseline, limits, arguments.items)
    in_order = judged(mutants, run, baseline, pool)
    for number, (mutant, judgement) in enumerate(in_order, 1):
        yield mutant, judgement
        changed += judgement.outcome in {"found", "survived"}
        minutes = (time.monotonic() - begin) / 60
        outcome = " ".join([judgement.outcome, *judgement.how])
        _say(f"{changed:4} of {number:4}, {minutes:5.1f} min: {outcome}: {mutant.id}")
        if changed >= arguments.sample or (arguments.minutes and minutes >= arguments.minutes):
            break
    in_order.close()


def earlier(file: Path, everything: Population) -> list[tuple[Mutant, Judgement]]:
    """What an earlier run says of all mutants but survivors. Mutants that no longer exist are left out."""
    names = [field.name for field in dataclasses.fields(Judgement)]
    return [
        (mutant, Judgement(**{name: entry[name] for name in names}))
        for mutant, entry in _entries(file, everything)
        if entry["outcome"] != "survived"
    ]


def survivors_of(file: Path, everything: Population) -> list[Mutant]:
    return [mutant for mutant, entry in _entries(file, everything) if entry["outcome"] == "survived"]


def _entries(file: Path, everything: Population) -> list[tuple[Mutant, dict[str, Any]]]:
    by_id = {mutant.id: mutant for mutants in everything.by_area.values() for mutant in mutants}
    entries = json.loads(file.read_text(encoding="utf-8"))["mutants"]
    return [(by_id[entry["id"]], entry) for entry in entries if entry["id"] in by_id]


def _judge(
    suite: Suite,
    everything: Population,
    functions: Functions,
    baseline: Baseline,
    limits: Limits,
    items: re.Pattern[str] | None,
    mutant: Mutant,
    note: Note,
) -> dict[str, Any]:
    order = candidates(mutant, everything.rows(mutant), everything.reached, baseline.failing, limits)
    if items is not None:
        order = [row for row in order if items.search(item_name(everything.reached.items[row]))]
    tree, say = everything.trees[mutant.file], lambda each: note(each.to_json())
    judgement = judge(suite, functions, tree, mutant, everything.reached, order, limits, say)
    return judgement.to_json()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
