"""`review --blame`: the functions of PyTorch whose change makes each cause, found now or by an earlier call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from conformance.cli.run_options import find_baseline
from conformance.devices.environment import torch_build
from conformance.distributions import LAB, module_of
from conformance.errors import ConformanceError
from conformance.review.cause_functions import CauseFunctions, compared_with, keep_functions, kept_functions
from conformance.review.causes import Cause
from conformance.review.review import Review
from conformance.storage.runs import Run
from conformance.storage.snapshots import torch_release
from conformance.words import pluralise

if TYPE_CHECKING:
    from conformance.bisection.sides import Side

OPTION = "--blame"


class BlamedSidesError(ConformanceError, ValueError):
    """A review compares two torches, and one of them is not known or not here."""


def sides(word: str, run: Run, baseline: str | None) -> tuple[Side, Side]:
    """The torch of the old texts, which `word` names unless the baseline run says it, and that of the run.

    Raises BlamedSidesError, MissingDistributionError, and what parse_side raises.
    """
    parse_side = module_of(LAB, "bisection.sides", OPTION).parse_side
    new = parse_side(_word_of(run, "the run"), OPTION)
    if word:
        old = parse_side(word, OPTION)
    elif baseline:
        old = parse_side(_word_of(find_baseline(baseline), f"--baseline {baseline}"), OPTION)
    else:
        raise BlamedSidesError(
            f"{OPTION} needs the torch that generated the stored code: {OPTION}=VENV with that torch, a folder that "
            "holds torch/, or PATH@COMMIT"
        )
    if old.packages == new.packages:
        raise BlamedSidesError(f"{OPTION}: both sides are {old.name}: name another torch")
    return old, new


def _word_of(run: Run, name: str) -> str:
    """The side that generated a run: its --torch-source, or the installed torch."""
    description = run.description()
    if source := description.get("torch_source"):
        commit = source["commit"]
        return source["path"] if not commit or commit.endswith("-dirty") else f"{source['path']}@{commit}"
    here, made = torch_build().version, str(description.get("torch", ""))
    if torch_release(made) != torch_release(here):
        raise BlamedSidesError(
            f"{OPTION}: {name} is of torch {made}, and torch {here} is installed here: use the Python of that run, or "
            f"name its torch with {OPTION}=VENV"
        )
    return str(module_of(LAB, "bisection.sides", OPTION).INSTALLED)


def blame(run: Run, review: Review, causes: Sequence[Cause], both: tuple[Side, Side], tables: Sequence[str]) -> int:
    """Finds the functions of those causes that have none yet, and prints and keeps each; 1 if one has none then."""
    blame_causes = module_of(LAB, "bisection.cause_blamer", OPTION).blame_causes
    known = known_functions(run, review)
    open_causes = [cause for cause in causes if cause.id not in known or not known[cause.id].functions]
    print(f"{pluralise(len(open_causes), 'cause')} to blame, from {both[0].name} to {both[1].name}", flush=True)
    numbers = {cause.id: number for number, cause in enumerate(review.causes, 1)}
    missing = 0
    for cause, found in blame_causes(review, open_causes, both, tables=tables):
        keep_functions(run, cause, found)
        missing += not found.functions
        print(f"{numbers[cause.id]:>3}  {cause.title}")
        print("\n".join(f"       {line}" for line in found.lines()), flush=True)
    return int(bool(missing))


def known_functions(run: Run, review: Review) -> dict[str, CauseFunctions]:
    """Id of a cause → what an earlier call found for the same comparison."""
    kept = kept_functions(run)
    found = {cause.id: kept.get((compared_with(review, cause), cause.id)) for cause in review.causes}
    return {name: each for name, each in found.items() if each is not None}
