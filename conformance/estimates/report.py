"""Estimates as data: a JSON file that can be compared with the file of another torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.estimates import EstimateError
from conformance.estimates.model import Estimate
from conformance.facts.least_times import CallEstimate
from conformance.storage.json_files import read_json_file, write_json_file

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
        write_json_file(path, FORMAT, {"about": self.about, "estimates": estimates})

    @classmethod
    def read(cls, path: Path) -> Report:
        """Raises EstimateError for a file that is missing, or that `write` did not write."""
        data = read_json_file(path, FORMAT, "estimate", EstimateError)
        try:
            return cls({name: data["about"][name] for name in _ABOUT}, [_estimate(each) for each in data["estimates"]])
        except (KeyError, TypeError, AttributeError) as error:
            raise EstimateError(f"{path} is damaged ({error}): write it again with `estimate --json`") from error


def _estimate(data: Mapping[str, Any]) -> Estimate:
    calls = [CallEstimate(**each) for each in data["calls"]]
    return Estimate(**{name: value for name, value in data.items() if name != "us"} | {"calls": calls})
