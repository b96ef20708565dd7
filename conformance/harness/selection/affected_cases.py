"""--affected-by: which of the collected items an edit of PyTorch can change, by a coverage map."""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.coverage import map_file
from conformance.coverage.affected import Affected, affected_items
from conformance.coverage.changes import Change, is_places, parse_diff, parse_places
from conformance.coverage.coverage_map import CoverageError, CoverageMap
from conformance.devices.environment import torch_build
from conformance.devices.targets import Target
from conformance.harness.collected import conformance_item, is_conformance_item
from conformance.harness.configuration.pytest_options import dest, option
from conformance.settings import Settings, long_name, option_name
from conformance.sources import git_repository
from conformance.storage.runs import FOLDER

_OPTION = "affected-by"


def read_edit(config: pytest.Config) -> None:
    """Puts the edit itself in place of the option's word, so that forked processes and workers need not read it again.

    Raises CoverageError and GitError.
    """
    if word := option(config, _OPTION):
        with _stdin_of_user(config):
            text = edit_text(word, config.invocation_params.dir)
        setattr(config.option, dest(_OPTION), text)


@contextlib.contextmanager
def _stdin_of_user(config: pytest.Config) -> Iterator[None]:
    """Inside, stdin is what the user's shell connects: pytest replaces it while it captures.

    For the time between options and collection, when pytest captures only stdin.
    """
    capturing = config.pluginmanager.get_plugin("capturemanager")
    if capturing is None or not capturing.is_globally_capturing():
        yield
        return
    capturing.suspend_global_capture(in_=True)
    try:
        yield
    finally:
        capturing.resume_global_capture()
        capturing.suspend_global_capture()  # what is printed now is for the user


@contextlib.contextmanager
def edit_for_another_run(config: pytest.Config) -> Iterator[list[str]]:
    """The words with which a pytest of its own has the same edit: stdin can be read only once. Call `read_edit` first.

    None without --affected-by.
    """
    text = option(config, _OPTION) or ""
    if not _is_text(text):
        yield []
        return
    with tempfile.NamedTemporaryFile("w", suffix=".diff", encoding="utf-8") as file:
        file.write(text[1:])
        file.flush()
        yield [f"{long_name(_OPTION)}={file.name}"]


def edit_text(word: str, folder: Path) -> str:
    """Places as they are typed, or the text of a diff: that of a file, of stdin (`-`), or of a checkout of PyTorch."""
    if is_places(word) or _is_text(word):
        return word
    if word == "-":
        return _as_text(_read_stdin())
    path, _, wanted = word.partition("@")
    if (folder / word).expanduser().is_file():
        return _as_text((folder / word).expanduser().read_text(encoding="utf-8", errors="replace"))
    checkout = (folder / Path(path).expanduser()) if path else folder
    if checkout.is_dir() and "@" not in word:
        return _as_text(_git_diff(checkout, "HEAD"))
    if checkout.is_dir():
        return _as_text(_git_diff(checkout, wanted))
    if (folder / "torch" / "_inductor").is_dir():
        return _as_text(_git_diff(folder, word))
    raise CoverageError(
        f"{option_name(_OPTION)} {word}: give torch/_inductor/lowering.py:1234, a file with a diff, - for a diff from "
        "stdin, or a checkout of PyTorch: CHECKOUT or CHECKOUT@main..HEAD"
    )


def _read_stdin() -> str:
    if sys.stdin is None:
        raise CoverageError(f"{option_name(_OPTION)} -: stdin is closed; write git diff | pytest …, or name a file")
    return sys.stdin.buffer.read().decode(errors="replace")


def _git_diff(checkout: Path, wanted: str) -> str:
    return git_repository.git(checkout, "diff", "--no-color", "--no-ext-diff", wanted, "--").decode(errors="replace")


def _as_text(diff: str) -> str:
    """Marks the text of a diff: an empty diff is not an option that was not given."""
    return f"\n{diff}"


def _is_text(word: str) -> bool:
    return word.startswith("\n")


def changes_of(text: str) -> list[Change]:
    """Raises CoverageError. `text`: of `edit_text`."""
    return parse_diff(text[1:], option_name(_OPTION)) if _is_text(text) else parse_places(text)


def map_for(root: Path, torch: str, file: str | None) -> CoverageMap:
    """The map of a file, else the project's for this torch, else this package's, else that of the nearest torch.

    Raises CoverageError without one.
    """
    return map_file.read(Path(file) if file else map_path(root, torch))


def map_path(root: Path, torch: str) -> Path:
    """Where that map is. Raises CoverageError without one."""
    folders = (root / FOLDER / "coverage", map_file.PACKAGED)
    for folder in folders:
        if (path := folder / map_file.file_name(torch)).is_file():
            return path
    others = [path for folder in folders for path in sorted(folder.glob(map_file.file_name("*")))]
    if not others:
        raise CoverageError(
            f"there is no coverage map for torch {torch}: make one with python -m conformance coverage make, which "
            "takes a second of CPU time for each case and target"
        )
    return others[-1]


@dataclass(frozen=True)
class Selection:
    """What --affected-by selects, by a map."""

    coverage: CoverageMap
    affected: Affected

    def has(self, case: str, target: Target) -> bool:
        """A target that the map lacks takes the answer of those of its device type, or of all. An item that the map
        does not know is selected.
        """
        if self.affected.everything:
            return True
        numbers = [self.coverage.number(case, name) for name in self._stand_ins(target)]
        known = [number for number in numbers if number is not None]
        return not known or any(self.affected.items >> number & 1 for number in known)

    def _stand_ins(self, target: Target) -> list[str]:
        targets = self.coverage.targets
        if target.name in targets:
            return [target.name]
        same = [name for name in targets if name.startswith("cpu_") == (target.device == "cpu")]
        return same or targets


@functools.cache
def _selection(text: str, root: Path, file: str | None) -> Selection:
    build = torch_build()
    coverage = map_for(root, build.version, file)

    def content_of(path: str) -> bytes | None:
        found = build.folder / path
        return found.read_bytes() if found.is_file() else None

    return Selection(coverage, affected_items(coverage, changes_of(text), content_of))


def selection(settings: Settings, root: Path) -> Selection | None:
    """None without --affected-by. Raises CoverageError."""
    return _selection(settings.affected_by, root, settings.coverage_map) if settings.affected_by else None


def deselect(config: pytest.Config, settings: Settings, items: list[pytest.Item]) -> None:
    """Deselects what the edit cannot change, and all that is no item of the suite."""
    selected = selection(settings, config.rootpath)
    if selected is None:
        return
    chosen = [test for test in items if is_conformance_item(test) and _has(selected, test)]
    if rest := set(items) - set(chosen):
        config.hook.pytest_deselected(items=[item for item in items if item in rest])
        items[:] = chosen


def _has(selected: Selection, test: pytest.Item) -> bool:
    item = conformance_item(test)
    return selected.has(item.case.id, item.target)


def header_lines(settings: Settings, root: Path) -> Sequence[str]:
    """How many of the map's cases are selected, and why they are more than the edit needs."""
    selected = selection(settings, root)
    if selected is None:
        return []
    coverage, affected = selected.coverage, selected.affected
    cases = {case for case, _ in coverage.named(affected.items)}
    name = f"conformance: {option_name(_OPTION)}"
    lines = [
        f"{name} selects {len(cases):,} of {len(coverage.cases):,} cases; cases that the map lacks are added",
        f"{name}: the map is for {coverage.name}, made on {', '.join(coverage.targets)}",
    ]
    if affected.everything:
        lines.append(f"{name} selects everything: {affected.everything}")
    if coverage.torch != torch_build().version:
        lines.append(f"{name}: this is torch {torch_build().version}, so functions are looked up by their names")
    return [*lines, *(f"{name}: {note}" for note in Counter(affected.notes))]
