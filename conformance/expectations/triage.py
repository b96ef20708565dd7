"""What is known of a bug beside its symptom: since which release, which result is right, and whether upstream knows it.

One known failure of each bug has it:

[failure.triage]
since = "2.6 or earlier"        # optional: the first torch release whose CPU build shows it
right = "eager"                 # one of RIGHT, by the documentation
because = "torch.min documents the index of the minimum, and True is not the minimum where a False is."
source = "https://docs.pytorch.org/docs/stable/generated/torch.min.html"   # optional: the page that decides
searched = "min bool indices inductor"    # the words by which upstream's issues were searched
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: "either": the documentation allows both results, or says nothing.
RIGHT = ("eager", "compiled", "either", "neither")
_REQUIRED = ("right", "because", "searched")
_OPTIONAL = ("since", "source")
_SINCE = re.compile(r"\d+\.\d+( or earlier)?")


class TriageError(ValueError):
    """A malformed [failure.triage]. The message says what is wrong, without the name of the file."""


@dataclass(frozen=True)
class Triage:
    """`since` and `source` are "" where they are not known."""

    right: str
    because: str
    searched: str
    since: str = ""
    source: str = ""


def parse(data: Any) -> Triage:
    """Raises TriageError."""
    keys = (*_REQUIRED, *_OPTIONAL)
    if not isinstance(data, Mapping):
        raise TriageError(f"triage is {data!r}; write a table [failure.triage] with the keys {', '.join(keys)}")
    for key, value in data.items():
        if key not in keys:
            raise TriageError(f"triage: unknown key {key!r}; the keys are {', '.join(keys)}")
        if not isinstance(value, str) or not value.strip():
            raise TriageError(f"triage: {key} is {value!r}; write text")
    for key in _REQUIRED:
        if key not in data:
            raise TriageError(f"triage: {key!r} is missing; the keys are {', '.join(keys)}")
    if data["right"] not in RIGHT:
        raise TriageError(f"triage: right is {data['right']!r}; write one of {', '.join(RIGHT)}")
    if not _SINCE.fullmatch(data.get("since", "0.0")):
        raise TriageError(f"triage: since is {data['since']!r}; write a release such as '2.9', or '2.6 or earlier'")
    if not data.get("source", "https://").startswith("https://"):
        raise TriageError(f"triage: source is {data['source']!r}; write the URL of the page that decides")
    return Triage(**data)
