"""Searches: generates programs, checks each on each target, minimises what fails, and keeps it as findings.

A folder holds all that a search needs to go on: which programs were checked, and the findings.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.devices.targets import Target
from conformance.errors import ConformanceError
from conformance.expectations.known_failure_writer import Failure as Failed
from conformance.expectations.known_failure_writer import write_known_failures
from conformance.fuzzer.corpus import Corpus
from conformance.fuzzer.doubts import doubt
from conformance.fuzzer.finding import (
    Finding,
    case_text,
    name_of,
    operators,
    part_of,
    read_findings,
    similar_bug,
)
from conformance.fuzzer.forms import Form
from conformance.fuzzer.generator import Generated, renamed
from conformance.fuzzer.generator_process import Programs
from conformance.minimisation.failure import Failure
from conformance.minimisation.minimiser import Minimised, Minimiser
from conformance.minimisation.script import write
from conformance.minimisation.trial import Trials
from conformance.numerics.problem import Problem
from conformance.words import pluralise

#: Compiles for one smallest program, and seconds of one compile.
_TRIALS, _TIME_LIMIT = 80, 120.0
#: Seconds after which a line says how far the search is.
_SILENCE = 60
_CHECKED, _SEARCH = "checked.jsonl", "search.json"


class SearchError(ConformanceError, RuntimeError):
    """A folder that has another search, or cannot be read or written. The message says why."""


@dataclass
class Counts:
    """Of this process: programs that were compared, that failed, that failed with a doubt, and why others were not
    compared.
    """

    compared: int = 0
    failed: int = 0
    not_compared: Counter[str] = field(default_factory=Counter)
    doubtful: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        more = sum(self.not_compared.values())
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.not_compared.most_common(4))
        doubts = self.doubtful.total()
        rest = f", {doubts} doubtful" if doubts else ""
        rest += f"; {more} not compared: {reasons}" if more else ""
        return f"{pluralise(self.compared, 'program')} compared, {self.failed} failed{rest}"


class Search:
    """`folder`: of the search; it is made, or gone on with. `seed`, `targets`: of all programs. `tables`: further ones.

    `bugs`: reason of a known failure → functions that its script calls. `say`: prints a line. `cases`: how
    many the programs are made of. `native`: the names of targets whose code runs on their device; others are emulated.
    Raises SearchError if the folder has a search with another seed, torch, targets or number of cases.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        targets: Sequence[Target],
        bugs: Mapping[str, Sequence[str]],
        say: Callable[[str], None],
        *,
        cases: int = 0,
        native: Collection[str] = (),
        tables: Sequence[str] = (),
    ) -> None:
        import torch

        self.folder, self._seed, self._targets, self._bugs, self._say = folder, seed, targets, bugs, say
        self._native, self._tables = native, tuple(tables)
        self.counts, self.corpus = Counts(), Corpus()
        self._torch = torch.__version__
        self._trials: list[Trials] = []
        #: Name of a finding that is being written → the thread that writes it, and the numbers of programs.
        self._beginning: dict[str, tuple[int, list[int]]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        names = [target.name for target in targets]
        settings = {"seed": seed, "torch": torch.__version__, "targets": names, "cases": cases}
        try:
            self._begin(settings)
            self._done = set()
            for each in self._checked():
                self._done.add((each["number"], each["target"]))
                self.corpus.end(each["number"], each["target"], each.get("lines", ()))
            self.findings = read_findings(folder)
        except OSError as error:
            raise SearchError(f"{folder}: {error.strerror}; name another folder with --output") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SearchError(f"{folder} has files that no search wrote: name another folder with --output") from error

    def _begin(self, settings: Mapping[str, Any]) -> None:
        place = self.folder / _SEARCH
        before = json.loads(place.read_text(encoding="utf-8")) if place.exists() else settings
        if changed := [name for name in settings if before.get(name) != settings[name]]:
            name = changed[0]
            raise SearchError(
                f"{self.folder} has a search with {name} {before.get(name)}, and this one has {settings[name]}: "
                "name another folder with --output"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write_atomically(place, json.dumps(settings) + "\n")

    def run(self, programs: Programs, until: float, jobs: int) -> None:
        """Checks programs until `time.monotonic()` is `until`. `jobs`: how many at a time.

        Raises TrialError, and SearchError if the folder cannot be written.

        What is being checked then is checked again when the search goes on.
        """
        waiting: queue.Queue[tuple[Generated, Target]] = queue.Queue(2 * jobs)
        errors: list[Exception] = []
        threads = [threading.Thread(target=self._work, args=(waiting, errors), daemon=True) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        said = time.monotonic()
        try:
            for each in self._wanted(programs, until):
                while time.monotonic() < until and not errors:
                    if time.monotonic() - said > _SILENCE:
                        said = time.monotonic()
                        self._say(f"{self.counts}; {(until - said) / 60:.0f} minutes left")
                    if each is None:
                        time.sleep(0.1)
                        break
                    with contextlib.suppress(queue.Full):
                        waiting.put(each, timeout=0.2)
                        break
                else:
                    break
        finally:
            self._stop.set()
            for trials in self._trials:
                trials.end()
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]

    def _wanted(self, programs: Programs, until: float) -> Iterator[tuple[Generated, Target] | None]:
        """What is to be checked, in order. None: what comes next depends on what is being checked.

        It also ends at `until`: of some cases, no program that is drawn fits together.
        """
        number = 0
        while time.monotonic() < until:
            targets = [target for target in self._targets if (number, target.name) not in self._done]
            while targets and not programs.is_ready(number):
                yield None
            if targets and (generated := programs.program(number)) is not None:
                if generated.program.is_called_again:
                    native = [target for target in targets if target.device == "cpu" and target.name in self._native]
                    with self._lock:
                        self.counts.not_compared.update(
                            ["checked natively on the CPU only"] * (len(targets) - len(native))
                        )
                    targets = native
                for target in targets:
                    self.corpus.begin(number, target.name)
                yield from ((generated, target) for target in targets)
            number += 1

    def _work(self, waiting: queue.Queue[tuple[Generated, Target]], errors: list[Exception]) -> None:
        """A thread: takes programs until the search stops."""
        with contextlib.ExitStack() as stack:
            trials: dict[str, Trials] = {}
            while not self._stop.is_set():
                try:
                    generated, target = waiting.get(timeout=0.2)
                except queue.Empty:
                    continue
                if target.name not in trials:
                    made = Trials(target.name, generated.form.call, tables=self._tables, time_limit=_TIME_LIMIT)
                    trials[target.name] = stack.enter_context(made)
                    self._trials.append(made)
                try:
                    self._check(generated, target, trials[target.name])
                except Exception as error:  # noqa: BLE001 - run() raises it in the main thread
                    if isinstance(error, OSError):
                        error = SearchError(f"{self.folder} cannot be written: {error.strerror or error}")
                    if not self._stop.is_set():  # else its process was ended in the middle
                        errors.append(error)
                    return

    def _check(self, generated: Generated, target: Target, trials: Trials) -> None:
        start = time.monotonic()
        trials.call = generated.form.call
        outcome = trials.run(generated.program, lines=True)
        self.corpus.end(generated.number, target.name, outcome.new_lines)
        problem = min(outcome.problems, key=lambda each: each.rule != "values", default=None)
        doubtful = doubt(generated.program, problem, trials) if problem is not None else ""
        state = f"doubtful: {doubtful}" if doubtful else str(problem.name) if problem else outcome.error or "right"
        with self._lock:
            self.counts.compared += not outcome.error
            self.counts.failed += problem is not None and not doubtful
            self.counts.doubtful[doubtful] += bool(doubtful)
            if outcome.error:
                self.counts.not_compared[outcome.error.partition(":")[0]] += 1
        if problem is not None and not doubtful:
            self._keep(generated, target, trials, problem)
        self._note(generated, target, state, time.monotonic() - start, outcome.new_lines)

    def _keep(self, generated: Generated, target: Target, trials: Trials, problem: Problem) -> None:
        """Minimises a program that fails, and writes what is new."""
        failure = Failure.of(problem)
        form = generated.form
        for simpler in form.simpler():
            trials.call = simpler.call
            if (found := failure.found_in(trials.run(generated.program).problems)) is not None:
                form, problem = simpler, found
                break
        trials.call = form.call
        minimiser = Minimiser(trials, lambda _line: None, _TRIALS)
        if self._is_counted_by_part(generated, minimiser, problem):
            return
        minimised = minimiser.minimise(generated.program, problem)
        name = name_of(minimised, renamed(minimised.program))
        if self._is_counted(generated, name):
            return
        blamed = (minimiser.part(minimised).lines() or [""])[0].removeprefix("wrong from: ")
        if self._is_counted(generated, name, blamed):
            return
        finding = self._written(generated, target, form, minimised, name, blamed)
        with self._lock:
            finding = dataclasses.replace(finding, numbers=tuple(self._beginning.pop(name)[1]))
            self.findings.append(finding)
            finding.save(self.folder)
        self._say(f"{name}: {finding.title} on {target.name} ({finding.evidence}); {finding.last}")

    def _written(
        self, generated: Generated, target: Target, form: Form, minimised: Minimised, name: str, blamed: str
    ) -> Finding:
        """Writes the script. Writes the case and the known failure too, if one call shows the failure."""
        program, folder = minimised.program, self.folder / name
        title = f"{minimised.failure}: {', '.join(operators(program)) or 'signs alone'}"
        heading = f"{title}, on {target.name}; found by explore, seed {self._seed}, program {generated.number}"
        script = write(
            folder / "script.py",
            minimised,
            heading,
            device=target.device,
            options={**target.simd_options, **form.options},
            dynamic=form.dynamic,
        )
        evidence = "native" if target.name in self._native else "emulated"
        finding = Finding(
            name=name,
            title=title,
            target=target.name,
            evidence=evidence,
            shows=script.shows,
            last=script.last,
            blamed=blamed,
            known=similar_bug(program, self._bugs),
            seed=self._seed,
            numbers=(),
            parts=generated.parts,
            steps=(minimised.before, len(program.steps)),
        )
        if program.between or program.context:
            return finding
        function = name.replace("-", "_")
        text = case_text(function, finding, program, form)
        atomic_files.write_atomically(folder / f"test_{function}.py", text)
        mode = "native" if evidence == "native" else "deviceless"
        failed = Failed(
            f"{function}/{function}", "numerics", target.name, mode, minimised.problem.text, [minimised.problem]
        )
        write_known_failures(folder / "known_failures", [failed], self._torch, "")
        return finding

    def _is_counted_by_part(self, generated: Generated, minimiser: Minimiser, problem: Problem) -> bool:
        """Whether a part of the compiler is to blame that a finding names: before the many trials of a reduction."""
        with self._lock:
            parts = {part_of(each.blamed) for each in self.findings} - {""}
        if not parts:
            return False
        lines = minimiser.part_of_program(generated.program, problem).lines() or [""]
        blamed = lines[0].removeprefix("wrong from: ")
        return part_of(blamed) in parts and self._is_counted(generated, "", blamed)

    def _is_counted(self, generated: Generated, name: str, blamed: str = "") -> bool:
        """Whether another program gave the finding, which then counts this one too. Else the name is this program's.

        The same smallest program is the same finding, and the same application of a part of the compiler to blame.
        """
        number = generated.number
        with self._lock:
            part = part_of(blamed)
            same = (each for each in self.findings if each.name == name or (part and part_of(each.blamed) == part))
            if (found := next(same, None)) is not None:
                others = self._beginning.pop(name, (0, []))[1]
                more = dataclasses.replace(found, numbers=tuple(dict.fromkeys((*found.numbers, number, *others))))
                self.findings[self.findings.index(found)] = more
                more.save(self.folder)
                return True
            owner, numbers = self._beginning.setdefault(name, (threading.get_ident(), []))
            if number not in numbers:
                numbers.append(number)
            return owner != threading.get_ident()

    def _note(self, generated: Generated, target: Target, state: str, seconds: float, new_lines: Sequence[str]) -> None:
        line = {
            "number": generated.number,
            "target": target.name,
            "state": state,
            "seconds": round(seconds, 2),
            "lines": list(new_lines),
        }
        with self._lock, (self.folder / _CHECKED).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")

    def _checked(self) -> Iterator[dict[str, Any]]:
        """What earlier processes checked. A line that a kill has cut is left out."""
        place = self.folder / _CHECKED
        for line in place.read_text(encoding="utf-8").splitlines() if place.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)
