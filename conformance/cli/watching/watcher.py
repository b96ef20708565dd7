"""Watches files, and answers each save with a fork of the highest layer that has imported none of the saved files.

It never gives an answer for older texts: a save ends the answer that runs, and the states of all files are compared
before an answer is given.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance.cases.adhoc import is_adhoc_function
from conformance.cli.watching.answers import Result
from conformance.cli.watching.layers import ANSWER, COMPILER, TORCH, LayerEndedError, LayerProcess
from conformance.cli.watching.saved_files import SaveBell, SavedFiles, States, changed, is_below, real
from conformance.devices.cache_folder import cache_folder
from conformance.harness.accidents.process_end import ProcessEnd
from conformance.sources.live_tree import LiveTree

#: The clock of files is this much behind, in nanoseconds.
_CLOCK = 20_000_000
#: Where installed packages and Python's own are.
_PLACES = {real(path) for path in sysconfig.get_paths().values()} | {real(sys.prefix), real(sys.base_prefix)} - {"/usr"}
#: How messages name what is imported anew.
_ANEW = {TORCH: "torch and its compiler", COMPILER: "torch's compiler"}


@dataclass(frozen=True)
class Begun:
    """An answer begins. `saved`: the files, none for the first one. `anew`: what is imported for it."""

    saved: Sequence[str]
    anew: str


@dataclass(frozen=True)
class Answered:
    """`printed`: what the cases and the compiler printed. `seconds`: since the save was seen."""

    results: Sequence[Result]
    printed: str
    seconds: float


@dataclass
class _Layer:
    """A layer that imports its part. `born`: the states when it began. `files`: what it has imported.

    `warmed`: the targets that it has captured for.
    """

    process: LayerProcess
    born: States
    files: frozenset[str] = frozenset()
    warmed: Sequence[str] = ()


class _SavedMeanwhileError(Exception):
    """A save came before the answer was complete."""


class _NoLayerError(Exception):
    """A layer could not import its part. The message says why."""


@dataclass
class Watcher:
    """`words`: the cases. `request`: what each layer is told. `folder`: for temporary files. `tree`: of --torch-source.

    `environment`: further variables of the layers.
    """

    words: Sequence[str]
    request: Mapping[str, Any]
    files: SavedFiles
    folder: Path
    tree: LiveTree | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bell = SaveBell()
        self._layers: dict[str, _Layer] = {}
        self._running: LayerProcess | None = None
        self._edited: set[str] = set()
        self._answered: States = {}
        self._laid: States | None = None
        self._imported: frozenset[str] | None = None  # None: an answer failed, and any file may be the reason
        self._number = 0
        self._package = real(Path(__file__).parents[2])
        self._places = (*_PLACES, real(cache_folder()), real(self.folder))
        for word in self.words:
            file = word.partition("::")[0] if not is_adhoc_function(word) else word.rpartition(":")[0]
            if file.endswith(".py"):
                self.files.others.add(real(file))

    def events(self) -> Iterator[Begun | Answered]:
        """Never ends. Raises WatchingError."""
        self._answered = self.files.states()
        self._bell.watch(self.files.folders(self._answered))
        is_due, seen = True, time.monotonic()
        while True:
            states = self.files.states()
            saved = changed(self._answered, states)
            self._edited |= saved
            if not is_due and not self._matters(saved):
                self._answered = states
                select.select([self._bell], [], [])
                self._bell.clear()
                seen = time.monotonic()
                continue
            yield Begun(sorted(map(shown, saved)), self._anew(states))
            try:
                answered, states = self._answer(states, seen)
            except _SavedMeanwhileError:
                self._end_answer()
                is_due, seen = True, time.monotonic()
                continue
            yield answered
            is_due, seen, self._answered = False, time.monotonic(), states
            self._bell.watch(self.files.folders(states))
            self._warm(answered)

    def close(self) -> None:
        """Ends all processes, and removes the temporary files."""
        self._end_answer()
        for role in (COMPILER, TORCH):
            self._end_layer(role)
        self._bell.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _matters(self, saved: Iterable[str]) -> bool:
        imported = self._imported
        return any(imported is None or path in imported or self._is_data(path) for path in saved)

    def _is_data(self, path: str) -> bool:
        """Whether a file is a template or a table of torch's compiler."""
        return self.files.torch is not None and is_below(path, self.files.torch) and not path.endswith(".py")

    def _is_old(self, role: str, states: States) -> bool:
        """Whether a file that the layer has imported was saved since it began."""
        layer = self._layers[role]
        saved = changed(layer.born, states)
        return bool(saved & layer.files) or (role == COMPILER and any(map(self._is_data, saved)))

    def _anew(self, states: States) -> str:
        for role in (TORCH, COMPILER):
            layer = self._layers.get(role)
            if layer is None or layer.process.has_ended() or self._is_old(role, states):
                return _ANEW[role]
        return ""

    def _answer(self, states: States, seen: float) -> tuple[Answered, States]:
        """Returns the answer, and the states with those of the files that it has read first. `seen`: when it was asked.

        Raises _SavedMeanwhileError.
        """
        begun = time.time_ns()
        self._lay(states)
        results: list[Result] = []
        output = self.folder / "output"
        output.write_bytes(b"")
        imported: list[str] | None = None
        try:
            layer = self._layer(COMPILER, states)
            self._number += 1
            temporary = self.folder / f"answer-{self._number}"
            temporary.mkdir()
            request = {**self.request, "words": list(self.words), "temporary": str(temporary), "output": str(output)}
            self._running, late = layer.process.fork(self._told(ANSWER, request))
            layer.files |= set(map(self._source_of, late))
            if self._is_old(COMPILER, states):  # a file that it has imported while it made something beforehand
                raise _SavedMeanwhileError
            for message in self._messages(self._running, states):
                if "result" in message:
                    results.append(Result.from_json(message["result"]))
                imported = message.get("files")
            if imported is None:
                status = layer.process.status(self._running)
                results.append(Result("the process of the answer", error=ProcessEnd(status).reason))
        except _NoLayerError as error:
            results = [Result("", error=str(error))]
        except LayerEndedError:
            results = [Result("", error="the process that has imported torch's compiler ended")]
            self._end_layer(COMPILER)
        printed = output.read_text(encoding="utf-8", errors="replace")
        self._end_answer()
        states = self._noted(imported, results, states, begun)
        results = [replace(each, error=shown(self._of_tree(each.error))) for each in results]
        return Answered(results, self._of_tree(printed), time.monotonic() - seen), states

    def _noted(self, imported: Sequence[str] | None, results: Sequence[Result], states: States, begun: int) -> States:
        """Notes which files an answer has read, and returns the states with theirs.

        Raises _SavedMeanwhileError for a file that was saved while the answer was made.
        """
        files = {self._source_of(file) for file in imported or ()}
        new = {file for file in files if not self.files.counts(file) and not self._is_foreign(file)} - self.files.others
        self.files.others |= new
        of_layers = [layer.files for layer in self._layers.values()]
        has_failed = imported is None or any(result.error for result in results)
        self._imported = None if has_failed else frozenset(files).union(*of_layers)
        now = self.files.states()
        states = {**states, **{path: now[path] for path in new & now.keys()}}
        saved_new = any(saved_at >= begun - _CLOCK for _, saved_at, *_ in (states[path] for path in new & now.keys()))
        if saved_new or self._matters(changed(states, now)):
            raise _SavedMeanwhileError
        return states

    def _layer(self, role: str, states: States) -> _Layer:
        """A layer that has imported the files as they are now.

        Raises _SavedMeanwhileError, _NoLayerError and LayerEndedError.
        """
        below = None if role == TORCH else self._layer(TORCH, states)
        layer = self._layers.get(role)
        if layer is not None and not layer.process.has_ended() and not self._is_old(role, states):
            return layer
        for each in (COMPILER, TORCH) if role == TORCH else (role,):
            self._end_layer(each)
        request = self._told(role, self.request)
        process = below.process.fork(request)[0] if below else LayerProcess.start(request, self.environment)
        self._layers[role] = layer = _Layer(process, states)
        for message in self._messages(process, states, is_layer=True):
            if "error" in message:
                self._end_layer(role)
                raise _NoLayerError(message["error"])
            layer.files = frozenset(map(self._source_of, message["files"]))
            self._refuse_saved(states)
            return layer
        self._end_layer(role)
        raise _NoLayerError(f"the process that imports {_ANEW[role]} ended")

    def _is_foreign(self, file: str) -> bool:
        """Whether a file belongs to Python or an installed package, or was generated."""
        return not is_below(file, self._package) and any(is_below(file, place) for place in self._places)

    def _told(self, role: str, request: Mapping[str, Any]) -> dict[str, Any]:
        return {**request, "role": role, "edited": sorted(map(self._import_name, self._edited))}

    def _messages(self, process: LayerProcess, states: States, *, is_layer: bool = False) -> Iterator[dict[str, Any]]:
        """What a process says, to its end. Raises _SavedMeanwhileError."""
        while True:
            ready = select.select([process.channel.fileno(), self._bell.fileno()], [], [])[0]
            if self._bell.fileno() in ready:
                self._bell.clear()
                self._refuse_saved(states, of_layer=is_layer)
            if process.channel.fileno() in ready:
                try:
                    yield from process.channel.arrived()
                except EOFError:
                    return

    def _refuse_saved(self, states: States, *, of_layer: bool = False) -> None:
        """Raises _SavedMeanwhileError. `of_layer`: for a layer that imports: a saved case does not concern it."""
        saved = changed(states, self.files.states())
        if any(map(self.files.counts, saved)) if of_layer else self._matters(saved):
            raise _SavedMeanwhileError

    def _end_answer(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running = None
        for folder in self.folder.glob("answer-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _end_layer(self, role: str) -> None:
        layer = self._layers.pop(role, None)
        if layer is not None:
            layer.process.kill()

    def _warm(self, answered: Answered) -> None:
        """While the user reads the answer, the layer makes what the next one needs."""
        layer = self._layers.get(COMPILER)
        targets = sorted({result.target for result in answered.results if result.target})
        if layer is not None and layer.warmed != targets and targets:
            layer.warmed = targets
            layer.process.warm(targets)

    def _lay(self, states: States) -> None:
        """Brings the tree of --torch-source to these states."""
        top = self.files.torch
        if self.tree is None or top is None:
            return
        saved = states if self._laid is None else changed(self._laid, states)
        paths = [path[len(top) + 1 :] for path in saved if is_below(path, top)]
        self.tree.update(paths if self._laid is not None else self.tree.different(paths))
        self._laid = states

    def _import_name(self, path: str) -> str:
        """The file that Python imports for a file that is edited."""
        if self.tree is None or self.files.torch is None or not is_below(path, self.files.torch):
            return path
        return str(self.tree.torch) + path[len(self.files.torch) :]

    def _source_of(self, file: str) -> str:
        """The file that is edited for one that Python imports."""
        return real(self._of_tree(str(Path(file).absolute())))

    def _of_tree(self, text: str) -> str:
        return text.replace(str(self.tree.torch), str(self.tree.source)) if self.tree is not None else text


def shown(text: str) -> str:
    """A text whose paths are relative to the current folder, where they are below it."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")
