"""The measurements of one run, as data: a JSON file that can be compared with the file of another run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.bench import BenchError
from conformance.bench.limits import Limit
from conformance.bench.timing import Spread
from conformance.storage.json_files import read_json_file, write_json_file

#: The first entry of a file: it tells what wrote the file.
FORMAT = "conformance bench 1"

#: Smaller changes of a median are not reported: they come with every build and every boot.
MIN_CHANGE = 0.05

#: The keys of `Report.about` that every file has.
_ABOUT = {"torch", "triton", "python", "processor", "cores", "device", "target", "threads", "load", "command"}


@dataclass
class Row:
    """One case. `axes`: name → label. `times`: of `eager`, `compiled` and `copy`. `facts`: of the capture, as lines.

    `why`: why compiled is slower, the strongest reason first; empty if it is not slower.
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
        """Eager divided by compiled: above 1, compiled is faster."""
        return self.times["eager"].median / self.times["compiled"].median

    @property
    def is_slower(self) -> bool:
        """Whether compiled is slower than eager, by more than noise."""
        return self.ratio < 1 and self.times["compiled"].differs(self.times["eager"], MIN_CHANGE, interleaved=True)

    def fraction_of_limit(self, function: str) -> float:
        """`function`: "eager" or "compiled". 1.0: as fast as the limit."""
        return self.limit.us / self.times[function].median


@dataclass
class Report:
    """`about`: torch, triton, python, processor, cores, device, target, threads, load, seconds, command: all of them
    text or numbers. `stopped`: how many cases an interruption left unmeasured.
    """

    about: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    stopped: int = 0

    def write(self, path: Path) -> None:
        write_json_file(path, FORMAT, dataclasses.asdict(self))

    @classmethod
    def read(cls, path: Path) -> Report:
        """Raises BenchError for a file that is missing, or that `write` did not write."""
        data = read_json_file(path, FORMAT, "bench", BenchError)
        try:
            return cls(_about(data["about"]), [_row(each) for each in data["rows"]], int(data["stopped"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"{path} is damaged ({error}): measure it again with `bench --json`") from error

    def summary(self) -> dict[str, Any]:
        """What the HTML report shows of the measurements: medians and limits in microseconds, and reasons."""
        rows = [
            {
                "case": row.case,
                "eager": row.times["eager"].median,
                "compiled": row.times["compiled"].median,
                "limit": row.limit.us,
                "slower": row.is_slower,
                "why": row.why,
            }
            for row in self.rows
        ]
        return {"about": self.about, "rows": rows, "stopped": self.stopped}


def _about(data: Mapping[str, Any]) -> dict[str, Any]:
    if missing := _ABOUT - set(data):
        raise KeyError(min(missing))
    return dict(data)


def _row(data: Mapping[str, Any]) -> Row:
    times = {name: Spread(**spread) for name, spread in data["times"].items()}
    if missing := {"eager", "compiled"} - set(times):
        raise KeyError(min(missing))
    return Row(**{**data, "times": times, "limit": Limit(**data["limit"])})
