"""The commands that a report shows. Each one has the options of its run, so that it gives what the run gave."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.report.columns import Cell
from conformance.report.states import CODE_CHANGED, CRASH, NOT_MET, NOT_STORED, WRONG_VALUES, failed_checks, failure
from conformance.settings import config_text, option_name
from conformance.storage.runs import ItemRecord, Run

#: Options of pytest that other commands have too, named as in run.json → the name there.
_SHARED = {"targets": "--targets", "torch-source": "--torch-source"}


def item_commands(cell: Cell, description: Mapping[str, Any]) -> dict[str, str]:
    """What a command does → the command, in the folder of the project. `description`: run.json of the cell's run."""
    if cell.record is None or not cell.node:
        return {}
    record, about = cell.record, _of_part(description, cell.record)
    options = options_of(about)
    pytest = ["pytest", cell.node, option_name("target"), record.target]
    commands = {"Run it": shlex.join([*pytest, *_words(options)])}
    other_backend = {"backend", "via"} & set(options)
    if (record.text or record.facts) and not other_backend:
        shown = ["python", "-m", "conformance", "show", record.case, *_of_commands(about, record.target)]
        commands["Explain its kernels"] = shlex.join([*shown, "--html"])
    states = {failure(name, each) for name, each in failed_checks(record).items()}
    if states & {WRONG_VALUES, CRASH} and not other_backend and "seed" not in options:
        words = ["python", "-m", "conformance", "minimise", cell.node, *_of_commands(about, record.target)]
        commands["Find the smallest program that fails"] = shlex.join(words)
    if states & {CODE_CHANGED, NOT_STORED} and WRONG_VALUES not in states and not _has_own_baseline(options):
        commands["Store its code"] = f"EXPECTTEST_ACCEPT=1 {commands['Run it']}"
    return commands


#: State → the option of `bisect` that asks for it. Without one, it asks for the code.
_QUESTIONS = {WRONG_VALUES: ["--numerics"], NOT_MET: ["--requirement"]}


def bisect_command(case: str, target: str, state: str, good: str, bad: str) -> str:
    """The command that finds the commit between two, since which a case is in this state; "" where none can."""
    if state not in (CODE_CHANGED, *_QUESTIONS):
        return ""
    words = ["python", "-m", "conformance", "bisect", case, "--target", target, "--source", "PYTORCH"]
    return shlex.join([*words, "--good", good, "--bad", bad, *_QUESTIONS.get(state, [])])


def review_commands(runs: Sequence[Run]) -> list[str]:
    """The commands that ask for each changed code of the runs: accept or reject?"""
    return [shlex.join(_review_words(run)) for run in runs if _is_reviewed(options_of(run.description()))]


def options_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run that make what an item is. `description`: run.json; an older one has no `options`."""
    chosen = description.get("inductor_config")
    options = dict(description.get("options", {}))
    return options | ({"inductor-config": [config_text(chosen)]} if chosen else {})


def option_text(options: Mapping[str, Any]) -> str:
    """Options as a terminal takes them; "" for none."""
    return shlex.join(_words(options))


def _of_part(description: Mapping[str, Any], record: ItemRecord) -> Mapping[str, Any]:
    """run.json of the run that made a record: of a merged run, that of its part."""
    for name in filter(None, record.run.split("/")):
        description = description.get("merged", {}).get(name, description)
    return description


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            yield option_name(name)
            if each is not True:
                yield str(each)


def _of_commands(description: Mapping[str, Any], target: str) -> list[str]:
    """The options of a command that compiles one case."""
    words = ["--target", target]
    for name, value in (description.get("inductor_config") or {}).items():
        words += ["--config", config_text({name: value})]
    for name, value in options_of(description).items():
        if name in _SHARED:
            for each in value if isinstance(value, list) else [value]:
                words += [_SHARED[name], str(each)]
    return words


def _review_words(run: Run) -> list[str]:
    options = options_of(run.description())
    words = ["python", "-m", "conformance", "review", run.folder.resolve().name]
    for name in ("baseline", "targets", "store"):
        value = options.get(name, [])
        for each in value if isinstance(value, list) else [value]:
            words += [f"--{name}", str(each)]
    return words


def _is_reviewed(options: Mapping[str, Any]) -> bool:
    """Whether `review` has something to compare the code of a run with."""
    return "baseline" in options or not _has_own_baseline(options)


def _has_own_baseline(options: Mapping[str, Any]) -> bool:
    """Whether what a run generates is not stored as the code of the cases."""
    return bool({"baseline", "inductor-config", "torch-source", "backend", "via"} & set(options)) and not (
        "torch-source" in options and "store" in options
    )
