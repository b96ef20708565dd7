"""How far known bugs shrink: buries each in a program of 30 steps, and minimises that.

    python benchmarks/minimisation.py --json minimised.json              # all bugs of the CPU; goes on where it stopped
    python benchmarks/minimisation.py --json minimised.json --only softshrink --verbose

A bug's script is run with eager in place of the compiler, to get its graph and inputs. If this graph alone fails, steps
are added until there are 30: before it, on its inputs; after it, on its outputs; and beside it. Where the failure is
not seen any more with steps before and after it, it gets only steps beside it. The table says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from conformance.atomic_files import write_atomically
from conformance.capture.dynamo_graphs import NotWritableError
from conformance.cases.roots import OPS
from conformance.compiler.compiler import compiler_here
from conformance.errors import ConformanceError, first_line
from conformance.expectations import known_bugs, known_failures
from conformance.minimisation.captured_programs import calls_of_script, programs_of_script
from conformance.minimisation.failure import Failure
from conformance.minimisation.minimiser import Minimiser, NotFailingError
from conformance.minimisation.program import EagerRun, Program, Step
from conformance.minimisation.trial import Call, Trials

STEPS, WANTED = 30, 4
#: Where steps are added, from the most to the least.
PLACES = ("before, after, beside", "after, beside", "beside")
_UNARY = ("torch.relu({})", "{}.sin()", "{}.cos()", "torch.sigmoid({})", "{}.tanh()", "{}.abs()", "{} * 0.5", "{} + 1")


class Burial:
    """A program with steps added until there are STEPS."""

    def __init__(self, program: Program, seed: str) -> None:
        self._random, self._program = random.Random(seed), program
        self._count = 0

    def buried(self, places: str) -> Program:
        import torch

        program = self._program
        noise = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
        before: list[Step] = []
        renamed: dict[str, str] = {}
        beside = [Step("noise_0", "torch.relu(noise)")]
        if "before" in places:
            before.append(Step("zero", "(noise - noise).sum()"))
            for name, value in program.inputs.items():
                steps = self._preserving(name, value)
                before += steps
                renamed[name] = steps[-1].name
        own = [step.with_constants(renamed) for step in program.steps]
        after: list[Step] = []
        outputs = []
        values = EagerRun(program).values
        for name in program.outputs:
            steps = self._changing(name, values.get(name)) if "after" in places else []
            after += steps
            outputs.append(steps[-1].name if steps else renamed.get(name, name))
        while len(before) + len(own) + len(after) + len(beside) < STEPS:
            used = self._random.choice(beside[-3:]).name
            beside.append(Step(f"noise_{len(beside)}", self._random.choice(_UNARY).format(used)))
        steps = self._mixed([*before, *own, *after], beside)
        return Program({**program.inputs, "noise": noise}, tuple(steps), (*outputs, beside[-1].name))

    def _preserving(self, name: str, value: Any) -> list[Step]:
        """Steps whose last one has the value and the strides of an input."""
        kinds = [["{}.clone()"], ["{}.unsqueeze(0)", "{}.squeeze(0)"], ["{}.unsqueeze(-1)", "{}.squeeze(-1)"]]
        if value.dtype.is_floating_point:
            kinds.append(["{} + zero"])
        chosen = [self._random.choice(kinds), self._random.choice(kinds)]
        return self._chain(name, [text for kind in chosen for text in kind])

    def _changing(self, name: str, value: Any) -> list[Step]:
        if not hasattr(value, "dtype"):
            return []
        texts = ["{} * 0.5", "{}.clone()", "{} - 1"] if value.dtype.is_floating_point else ["{}.clone()"]
        return self._chain(name, self._random.sample(texts, min(2, len(texts))))

    def _chain(self, name: str, texts: list[str]) -> list[Step]:
        steps: list[Step] = []
        for text in texts:
            self._count += 1
            steps.append(Step(f"step_{self._count}", text.format(name)))
            name = steps[-1].name
        return steps

    def _mixed(self, one: list[Step], other: list[Step]) -> list[Step]:
        """Both in their order, mixed at random."""
        which = [0] * len(one) + [1] * len(other)
        self._random.shuffle(which)
        streams = (iter(one), iter(other))
        return [next(streams[each]) for each in which]


def minimise_bug(bug: known_bugs.Bug, trials: Trials, say: Callable[[str], None]) -> dict[str, Any]:
    """What happened: `outcome` and, where it was minimised, `steps`, `trials`, `seconds`, `failure`, `places`."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        script = Path(folder, "bug.py")
        script.write_text(bug.reproduction, encoding="utf-8")
        programs = programs_of_script(script)
    minimiser = Minimiser(trials, say, most=100)
    program, problem = minimiser.failing(programs, None, calls_of_script(programs))
    wanted = Failure.of(problem)
    for places in PLACES:
        buried = Burial(program, bug.reason).buried(places)
        with contextlib.suppress(NotFailingError):
            found, seen = minimiser.failing([buried], wanted)
            break
    else:
        return {"outcome": "it does not fail in a program of 30 steps", "own": len(program.steps)}
    made = minimiser.minimise(found, seen)
    say(made.program.text)
    count = len(made.program.steps)
    return {
        "outcome": "small" if count <= WANTED else "large",
        "own": len(program.steps),
        "places": places,
        "before": made.before,
        "steps": count,
        "trials": made.trials,
        "seconds": round(made.seconds),
        "failure": str(made.failure),
        "text": made.program.text,
    }


def show(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints the table and the share."""
    minimised = {reason: each for reason, each in results.items() if "steps" in each}
    for reason, each in results.items():
        if "steps" in each:
            text = f"{each['before']} → {each['steps']} (its own: {each['own']}; {each['places']}) "
            text += f"{each['trials']} compiles, {each['seconds']} s"
        else:
            text = each["outcome"]
        print(f"{reason[:90]}\n    {text}")
    small = sum(each["steps"] <= WANTED for each in minimised.values())
    print(f"{small} of {len(minimised)} shrink to at most {WANTED} steps; {len(results) - len(minimised)} not buried")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="the results: read, and written after each bug")
    parser.add_argument("--target", default="cpu_avx2")
    parser.add_argument("--only", default="", help="only bugs with this text in their script")
    parser.add_argument("--every", type=int, default=1, help="only every Nth bug")
    parser.add_argument("--verbose", action="store_true", help="print each trial")
    arguments = parser.parse_args()
    path: Path = arguments.json
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()
        import torch

        failures = known_failures.load(OPS.parent / "known_failures").failures
        bugs = [bug for bug in known_bugs.bugs(failures) if bug.reproduction and "cpu" in bug.devices]
        bugs = [bug for bug in bugs if bug.applies_to(torch.__version__) and arguments.only in bug.reproduction]
        say = (lambda line: print(f"  {line}", flush=True)) if arguments.verbose else (lambda _: None)
        with Trials(arguments.target, Call()) as trials:
            for bug in bugs[:: arguments.every]:
                if bug.reason in results:
                    continue
                start = time.perf_counter()
                try:
                    results[bug.reason] = minimise_bug(bug, trials, say)
                except (NotWritableError, NotFailingError) as error:
                    results[bug.reason] = {"outcome": str(error)}
                except ConformanceError as error:
                    results[bug.reason] = {"outcome": f"{type(error).__name__}: {first_line(error)}"}
                short = {key: value for key, value in results[bug.reason].items() if key != "text"}
                print(f"{time.perf_counter() - start:5.0f} s  {bug.reason[:80]}\n    {short}", flush=True)
                write_atomically(path, json.dumps(results, indent=1) + "\n")
    show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
