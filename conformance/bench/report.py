"""What one run measured, as data: a file that another run can be compared with."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.bench import BenchError
from conformance.bench.limits import Limit
from conformance.bench.timing import Spread

#: The first entry of a file, by which it is known.
FORMAT = "conformance bench 1"

#: By so much at least medians differ where one is called faster: what is less moves with every build and every boot.
LEAST = 0.05


#: What is said of a run, see Report.
_ABOUT = {"torch", "triton", "python", "processor", "cores", "device", "target", "threads", "load", "command"}


@dataclass
class Row:
    """A case. `axes`: name → label. `times`: of `eager`, `compiled` and `copy`. `facts`: of the capture, as lines.

    `why`: the facts that explain why compiled loses, most telling first; empty where it does not.
    """

    case: str
    function: str
    axes: dict[str, str]
    gradients: bool
    times: dict[str, Spread]
    limit: Limit
    facts: dict[str, str]
    why: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Eager over compiled: how many times faster compiled is."""
        return self.times["eager"].median / self.times["compiled"].median

    @property
    def loses(self) -> bool:
        """Whether compiled is slower than eager, beyond noise."""
        return self.ratio < 1 and self.times["compiled"].differs(self.times["eager"], LEAST, in_turns=True)

    def fraction(self, way: str) -> float:
        return self.limit.us / self.times[way].median


@dataclass
class Report:
    """`about`: torch, triton, python, processor, cores, device, target, threads, load, seconds, command; all text or
    numbers. `stopped`: how many cases were not measured because the run was interrupted.
    """

    about: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    stopped: int = 0

    def write(self, path: Path) -> None:
        data = {"format": FORMAT, **dataclasses.asdict(self)}
        atomic_files.write_atomically(path, json.dumps(data, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Raises BenchError for a file that is not there or that this did not write."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BenchError(f"{path}: {error.strerror}: name a file that `bench --json` wrote") from error
        except ValueError as error:
            raise BenchError(f"{path} is no JSON: name a file that `bench --json` wrote") from error
        said = data.get("format") if isinstance(data, dict) else None
        if said != FORMAT:
            what = f"its format is {said!r}, not {FORMAT!r}" if said else f"it does not begin with {FORMAT!r}"
            raise BenchError(f"{path} was not written by `bench --json`: {what}")
        try:
            return cls(_about(data["about"]), [_row(each) for each in data["rows"]], int(data["stopped"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"{path} is damaged ({error}): measure it again with `bench --json`") from error


def _about(data: Mapping[str, Any]) -> dict[str, Any]:
    if missing := _ABOUT - set(data):
        raise KeyError(min(missing))
    return dict(data)


def _row(data: Mapping[str, Any]) -> Row:
    times = {name: Spread(**spread) for name, spread in data["times"].items()}
    if missing := {"eager", "compiled"} - set(times):
        raise KeyError(min(missing))
    return Row(**{**data, "times": times, "limit": Limit(**data["limit"])})
