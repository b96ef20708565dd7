"""Estimates as data: a JSON file that can be compared with the file of another torch."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.estimates import EstimateError
from conformance.estimates.model import CallEstimate, Estimate

#: The first entry of a file: it tells what wrote the file.
FORMAT = "conformance estimate 1"

_ABOUT = ("torch", "triton", "command")


@dataclass
class Report:
    """`about`: torch, triton (versions) and command."""

    about: dict[str, str]
    estimates: list[Estimate] = field(default_factory=list)

    def write(self, path: Path) -> None:
        estimates = [{**dataclasses.asdict(each), "us": round(each.us, 3)} for each in self.estimates]
        data = {"format": FORMAT, "about": self.about, "estimates": estimates}
        atomic_files.write_atomically(path, json.dumps(data, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Raises EstimateError for a file that is missing, or that `write` did not write."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise EstimateError(f"{path}: {error.strerror}: name a file that `estimate --json` wrote") from error
        except ValueError as error:
            raise EstimateError(f"{path} is not JSON: name a file that `estimate --json` wrote") from error
        format_ = data.get("format") if isinstance(data, dict) else None
        if format_ != FORMAT:
            reason = f"its format is {format_!r}, not {FORMAT!r}" if format_ else f"it has no format {FORMAT!r}"
            raise EstimateError(f"{path} was not written by `estimate --json`: {reason}")
        try:
            return cls({name: data["about"][name] for name in _ABOUT}, [_estimate(each) for each in data["estimates"]])
        except (KeyError, TypeError, AttributeError) as error:
            raise EstimateError(f"{path} is damaged ({error}): write it again with `estimate --json`") from error


def _estimate(data: Mapping[str, Any]) -> Estimate:
    calls = [CallEstimate(**each) for each in data["calls"]]
    return Estimate(**{name: value for name, value in data.items() if name != "us"} | {"calls": calls})
