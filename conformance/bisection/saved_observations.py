"""What a bisection has observed so far, in a file: after Ctrl-C, the same command goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import conformance
from conformance import atomic_files
from conformance.bisection.observer import Observed, Observer
from conformance.cases.adhoc import is_adhoc_function, resolve_case
from conformance.cases.roots import is_own_case_file
from conformance.devices.cache_folder import cache_folder
from conformance.devices.environment import torch_build, triton_version
from conformance.devices.targets import targets

#: Below the cache folder.
FOLDER = "bisections"
_FORMAT = 2


class SavedObservations:
    """Commit → what was observed there. A wrong or foreign file counts as empty."""

    def __init__(self, repository: Path, observer: Observer) -> None:
        self._about = json.loads(json.dumps(_about(repository, observer)))  # as it is read: with lists for tuples
        name = hashlib.sha256(json.dumps(self._about, sort_keys=True).encode()).hexdigest()[:20]
        self.file = cache_folder() / FOLDER / f"{name}.json"
        self._observed = self._read()

    def __len__(self) -> int:
        return len(self._observed)

    def get(self, commit: str) -> Observed | None:
        return self._observed.get(commit)

    def add(self, commit: str, observed: Observed) -> None:
        """Keeps an observation, also for a later command. A folder that cannot be written to keeps none."""
        self._observed[commit] = observed
        data = {name: each.to_json() for name, each in self._observed.items()}
        with contextlib.suppress(OSError):
            atomic_files.write_atomically(self.file, json.dumps({"about": self._about, "observed": data}))

    def forget(self) -> None:
        self._observed.clear()
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)

    def _read(self) -> dict[str, Observed]:
        try:
            data = json.loads(self.file.read_text(encoding="utf-8"))
            if data["about"] != self._about:
                return {}
            return {commit: Observed.from_json(each) for commit, each in data["observed"].items()}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def _about(repository: Path, observer: Observer) -> Mapping[str, Any]:
    """All that an observation depends on besides the commit."""
    build = torch_build()
    return {
        "format": _FORMAT,
        "conformance": conformance.__version__,
        "package": _digest_of_package(),
        "torch": [build.version, str(build.folder)],
        "triton": triton_version(),
        "python": sys.version,
        "repository": str(repository.resolve()),
        "cases": {word: _case_state(word, observer) for word in observer.cases},
        "target": targets()[observer.target].to_json() if observer.target in targets() else observer.target,
        "numerics": observer.numerics,
        "work": observer.work,
        "options": [list(observer.options.inputs), list(observer.options.grad), observer.options.dynamic,
                    list(observer.options.config)],
    }  # fmt: skip


def _case_state(word: str, observer: Observer) -> str:
    """The text of the file that declares a case."""
    if is_adhoc_function(word):
        return ""
    case, _ = resolve_case(word, list(targets()), observer.options)
    return hashlib.sha256(case.file.read_bytes()).hexdigest()


def _digest_of_package() -> str:
    """Of the package's own code: an edit of a normalising rule or of a patch observes anew."""
    folder = Path(conformance.__file__).parent
    states = [f"{file}{file.stat().st_mtime_ns}" for file in sorted(folder.rglob("*.py")) if not _has_cases(file)]
    return hashlib.sha256("\n".join(states).encode()).hexdigest()


def _has_cases(file: Path) -> bool:
    return file.name.startswith("test_") and is_own_case_file(file)
