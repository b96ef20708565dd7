"""Known bugs: known failures with one reason, as a page, and whether their reproductions still show them.

A reproduction is a script that needs only torch. While the bug is there, it ends with an AssertionError or with the
error that a known failure names; once the bug is gone, without an error.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conformance.capture.compiler_options import PACKAGES
from conformance.devices.torch_releases import TESTED
from conformance.expectations.known_failure_entry import EVERY_CASE, KnownFailure
from conformance.expectations.severity import DEFAULT_TOLERANCE, Severity, severity
from conformance.expectations.triage import Triage

#: Seconds after which a script is stopped. It then counts as one that does not show its bug.
TIMEOUT = 300
#: The title of the page.
TITLE = "Known bugs"


@dataclass
class Bug:
    """Known failures with one `reason`."""

    reason: str
    failures: list[KnownFailure] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The address on pages: the first words of the reason, and a part of its digest."""
        words = re.sub("[^a-z0-9]+", "-", self.reason.lower()).strip("-")[:50].rstrip("-")
        return f"{words}-{hashlib.sha256(self.reason.encode()).hexdigest()[:4]}"

    @property
    def reproduction(self) -> str:
        """The script of the first failure that has one; "" where none has."""
        return next((failure.reproduction for failure in self.failures if failure.reproduction), "")

    @property
    def triage(self) -> Triage | None:
        """The triage of the first failure that has one."""
        return next((failure.triage for failure in self.failures if failure.triage), None)

    @property
    def severity(self) -> Severity:
        """The worst one of its failures."""
        return severity(self.failures)

    @property
    def missing_package(self) -> str:
        """The package that the script needs and that is not installed: of a backend that an option chooses; else ""."""
        options = [option for failure in self.failures for option in failure.backend_options]
        packages = {PACKAGES.get(option.rpartition("=")[2], "") for option in options}
        return next((each for each in sorted(packages - {""}) if importlib.util.find_spec(each) is None), "")

    @property
    def errors(self) -> list[str]:
        """What the output of the script has while the bug is there, one of them."""
        return ["AssertionError", *(failure.error for failure in self.failures if failure.error)]

    @property
    def devices(self) -> set[str]:
        """Types of the devices that show it, as the names of targets begin with them: "cpu", "cuda", "xpu"."""
        return {target.partition("_")[0] for failure in self.failures for target in failure.targets}

    def applies_to(self, torch_version: str) -> bool:
        return any(failure.applies_to(torch_version) for failure in self.failures)

    def to_json(self) -> dict[str, Any]:
        """What a page shows of the bug. `torch`: the tested releases that have it; `versions`: the ranges."""
        cases = list(dict.fromkeys(case for failure in self.failures for case in failure.cases))
        triage = self.triage
        return {
            "id": self.id,
            "title": f"{self.reason[0].upper()}{self.reason[1:]}",
            "severity": self.severity.title,
            "upstream": list(dict.fromkeys(failure.issue for failure in self.failures)),
            "torch": [each.name for each in TESTED if self.applies_to(f"{each.name}.0")],
            "versions": list(dict.fromkeys(str(failure.torch) for failure in self.failures)),
            "devices": sorted(self.devices),
            "targets": list(dict.fromkeys(target for failure in self.failures for target in failure.targets)),
            "options": list(dict.fromkeys(each for f in self.failures for each in f.backend_options if each)),
            "operators": sorted({case.partition("/")[0] for case in cases if case != EVERY_CASE}),
            "cases": cases,
            "script": self.reproduction.strip(),
            "triage": asdict(triage) | {"search": _search(triage)} if triage else None,
        }


def bugs(failures: Iterable[KnownFailure]) -> list[Bug]:
    """Known failures grouped by reason, the most severe first.

    Of one severity, bugs without a reproduction come last. Otherwise the order is that of the files.
    """
    by_reason: dict[str, Bug] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, Bug(failure.reason)).failures.append(failure)
    return sorted(by_reason.values(), key=lambda bug: (bug.severity, not bug.reproduction))


def run_reproduction(bug: Bug, python: str = sys.executable) -> tuple[bool, str]:
    """Runs the bug's script with a Python and its torch. Returns whether it shows the bug, and its last line."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "bug.py")  # TorchScript reads the source of what it compiles
        script.write_text(bug.reproduction, encoding="utf-8")
        try:
            done = subprocess.run([python, script], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return False, f"it still ran after {TIMEOUT} s, so it was stopped"
    last = (done.stderr.strip().splitlines() or ["it ends without an error"])[-1]
    if done.returncode == 0:
        return False, "it ends without an error"
    crashed = done.returncode < 0 and f"signal {-done.returncode}"
    return any(error in done.stderr for error in bug.errors), crashed or last


def markdown(entries: Iterable[Bug], title: str = TITLE) -> Iterator[str]:
    """The lines of a page such as docs/known-bugs.md."""
    yield f"# {title}"
    yield ""
    yield "Generated by `python -m conformance list --bugs` from `known_failures/*.toml`. Each script needs only torch."
    yield "While the bug is there, it ends with an AssertionError, or with the error that the known failure names."
    yield "`python -m conformance list --bugs --check` runs them all."
    yield ""
    yield "The most severe bugs come first. The severity is computed from what the known failures excuse: calls, rules,"
    yield f"changes of values, and a bound of |compiled - eager|. A bound above {DEFAULT_TOLERANCE:g}"
    yield "counts as beyond the default tolerances."
    yield ""
    yield "Since: the first torch release whose CPU build shows the bug by its script. 2.6 is the earliest one tried."
    yield "A bug without this line has no script, or a CPU does not show it."
    for each, group in itertools.groupby(entries, key=lambda bug: bug.severity):
        bugs_of_severity = list(group)
        count = len(bugs_of_severity)
        yield from ["", f"## {each.title}", "", f"{count} {'bug' if count == 1 else 'bugs'}. {each.description}"]
        for bug in bugs_of_severity:
            yield from ["", f"### {bug.reason[0].upper()}{bug.reason[1:]}", ""]
            yield from _summary(bug)
            yield from _triage(bug)
            if bug.reproduction:
                yield from ["", "```python", bug.reproduction.strip(), "```"]
            else:
                yield "- no script: only older versions have it, or only a device or the generated code shows it"


def _triage(bug: Bug) -> Iterator[str]:
    """Since when, which result is right, and how upstream was searched; nothing where nobody has found out."""
    if bug.triage is None:
        return
    if bug.triage.since:
        yield f"- since torch {bug.triage.since}"
    source = f" (<{bug.triage.source}>)" if bug.triage.source else ""
    yield f"- right by the documentation: {bug.triage.right}. {bug.triage.because}{source}"
    yield f"- searched upstream: [{bug.triage.searched}]({_search(bug.triage)})"


def _search(triage: Triage) -> str:
    """The address of the search for the bug upstream."""
    return f"https://github.com/pytorch/pytorch/issues?q={urllib.parse.quote_plus(triage.searched)}"


def _summary(bug: Bug) -> Iterator[str]:
    issues = dict.fromkeys(f"<{f.issue}>" if f.issue.startswith("http") else f.issue for f in bug.failures)
    versions = dict.fromkeys(str(failure.torch) for failure in bug.failures)
    cases = list(dict.fromkeys(case for failure in bug.failures for case in failure.cases))
    targets = dict.fromkeys(target for failure in bug.failures for target in failure.targets)
    options = dict.fromkeys(f"`{option}`" for f in bug.failures for option in f.backend_options if option)
    yield f"- upstream: {', '.join(issues)}"
    yield f"- torch {' or '.join(versions)}; {', '.join(targets)}" + (f"; with {', '.join(options)}" if options else "")
    if cases == [EVERY_CASE]:
        yield "- any case may raise it"
    else:
        yield f"- found by {len(cases)} cases, such as `{cases[0]}`" if len(cases) > 1 else f"- found by `{cases[0]}`"
