"""One entry of known_failures/*.toml: its keys, and how it is read.

[[failure]]
case = "sum/sum-64x1000-f16"          # an id, or a list of ids; also what only --thorough combines. With
                                      # `inductor-config` and `error` also "*": the error is that of a whole backend;
                                      # so with `problems` that all have an `error`: see known_causes/
check = "numerics"                    # one of CHECKS
target = ["cpu_avx2", "cpu_avx512"]   # a target, or a list
mode = "native"                       # optional: "native" or "deviceless"; without it, both
via = "export"                        # optional: for runs with --via export; a name, or a list
backend = ["inductor", "aot_eager"]   # optional, likewise; without `via` and `backend`: for runs of Inductor only
inductor-config = "cpu_backend=halide" # optional: only for runs with this option, beside the entries without it
torch = ">=2.11,<2.14"                # a version range
run = false                           # optional: the check does not run, because it would end the process
sometimes = "which element is NaN"    # optional: what decides whether it occurs; then it is never stale
error = "KeyError: 'buf"              # a part of the error's type and message; or, for wrong numerics:
problems = [{ call = "nan", tensor = "output", rule = "values", changes = "NaN → 0" }]   # see excuses.py
reason = "accumulates in f16"
issue = "https://github.com/pytorch/pytorch/issues/1"   # or "not reported"
reproduction = '''…'''              # optional: a script that needs only torch (known_bugs.py); one for each reason

[failure.triage]                      # optional: one for each reason, see triage.py
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from conformance.errors import ConformanceError
from conformance.expectations import excuses, triage
from conformance.numerics.problem import Excuse
from conformance.settings import ALL_CHECKS, VIA

CHECKS = tuple(each.name for each in ALL_CHECKS if each.excused)

_MODES = ("native", "deviceless")
#: An error that is the type of an exception alone says nothing of the cause. Nor do these parts of messages.
_EXCEPTION_ALONE = re.compile(r"[\w.]*(Error|Exception|Failed|Warning)\w*:?")
_EVERY_FAILURE = ("disagrees with eager", "compiled disagrees", "strides are", "C++ compile error")
#: What Dynamo writes below each error of the compiler.
EVERY_ERROR = "Set TORCHDYNAMO_VERBOSE"

#: Options of the run that an entry is for. Without these keys, it is for Inductor.
_RUN_OPTIONS = ("via", "backend", "inductor-config")
#: Instead of the ids of cases: any case.
EVERY_CASE = "*"
_KEYS = ("case", "check", "target", "torch", "reason", "issue")
_OPTIONAL = ("error", "problems", "reproduction", "triage", "mode", "run", "sometimes", *_RUN_OPTIONS)

#: (case, check, target): one check of one item.
ItemCheck = tuple[str, str, str]


class KnownFailureError(ConformanceError, ValueError):
    """A malformed entry, or one for a case or target that does not exist. The message names the file and the entry."""


@dataclass(frozen=True)
class KnownFailure:
    """One entry. `where`: file and number, for messages. `backend_options`: see Settings.backend_option.

    `layer`: the folder of the entry, if it is laid over the one beside the cases; else "".
    It has either `error` or `excuses`: the error that it excuses, or the problems of wrong numerics.
    `run`: whether the check runs. If it does not, nobody notices that its failure is gone. Nor does anybody with
    `sometimes`: what decides whether the failure occurs.
    """

    where: str
    cases: tuple[str, ...]
    check: str
    targets: tuple[str, ...]
    torch: SpecifierSet
    error: str
    reason: str
    issue: str
    excuses: tuple[Excuse, ...] = ()
    reproduction: str = ""
    mode: str = ""
    backend_options: tuple[str, ...] = ("",)
    run: bool = True
    sometimes: str = ""
    triage: triage.Triage | None = None
    layer: str = ""

    def is_for(self, case: str, check: str, target: str) -> bool:
        named = case in self.cases or self.cases == (EVERY_CASE,)
        return named and check == self.check and target in self.targets

    def items(self) -> Iterator[ItemCheck]:
        for case in self.cases:
            for target in self.targets:
                yield case, self.check, target

    def applies_to(self, torch_version: str, mode: str = "", options: Collection[str] | None = None) -> bool:
        """Whether the entry is for this torch, mode and one of these options of a run, as in `backend_options`.

        Without the last two, any mode or option will do.
        """
        if mode and self.mode not in ("", mode):
            return False
        if options is not None and set(options).isdisjoint(self.backend_options):
            return False
        return self.torch.contains(release_of(torch_version), prereleases=True)


def parse_entry(where: str, entry: Any) -> KnownFailure:
    """One [[failure]] table. `where`: for messages. Raises KnownFailureError."""
    if not isinstance(entry, dict):
        raise KnownFailureError(f"{where}: is {entry!r}; write a [[failure]] table with the keys {', '.join(_KEYS)}")
    for key in entry:
        if key not in (*_KEYS, *_OPTIONAL):
            known = ", ".join((*_KEYS, *_OPTIONAL))
            raise KnownFailureError(f"{where}: unknown key {key!r}; the keys are {known}")
    for key in _KEYS:
        if key not in entry:
            raise KnownFailureError(f"{where}: {key!r} is missing; the keys are {', '.join(_KEYS)}")
    values = {key: _parse_text(where, key, entry[key]) for key in ("check", "torch", "reason", "issue")}
    if values["check"] not in CHECKS:
        raise KnownFailureError(f"{where}: unknown check {values['check']!r}; known are {', '.join(CHECKS)}")
    mode = entry.get("mode", "")
    if "mode" in entry and mode not in _MODES:
        raise KnownFailureError(f"{where}: mode is {mode!r}; write {' or '.join(_MODES)}, or leave it out for both")
    issue = values["issue"]
    if issue != "not reported" and not issue.startswith(("https://", "http://")):
        raise KnownFailureError(f"{where}: issue is {issue!r}; write its URL, or 'not reported'")
    try:
        versions = SpecifierSet(values["torch"])
    except InvalidSpecifier as error:
        raise KnownFailureError(
            f"{where}: torch is {values['torch']!r}, not a version range; write one such as '>=2.11,<2.14'"
        ) from error
    run = entry.get("run", True)
    if not isinstance(run, bool):
        raise KnownFailureError(f"{where}: run is {run!r}; write `run = false`, or leave it out")
    if not run and not any(spec.operator in ("<", "<=", "==") for spec in versions):
        raise KnownFailureError(
            f"{where}: with `run = false` nobody notices that a newer torch mends the bug; end the range, as in "
            f"torch = '{values['torch']},<2.14'"
        )
    sometimes = _parse_text(where, "sometimes", entry["sometimes"]) if "sometimes" in entry else ""
    text, named = _parse_matcher(where, values["check"], entry)
    return KnownFailure(
        where,
        cases=_parse_cases(where, entry),
        check=values["check"],
        targets=_parse_names(where, "target", entry["target"]),
        torch=versions,
        error=text,
        excuses=named,
        reason=values["reason"],
        issue=issue,
        reproduction=_parse_script(where, entry.get("reproduction", "")),
        mode=mode,
        backend_options=_parse_backend_options(where, entry),
        run=run,
        sometimes=sometimes,
        triage=_parse_triage(where, entry),
    )


def _parse_triage(where: str, entry: Mapping[str, Any]) -> triage.Triage | None:
    try:
        return triage.parse(entry["triage"]) if "triage" in entry else None
    except triage.TriageError as wrong:
        raise KnownFailureError(f"{where}: {wrong}") from None


def _parse_matcher(where: str, check: str, entry: Mapping[str, Any]) -> tuple[str, tuple[Excuse, ...]]:
    """The entry's `error` and its excuses: one of them is empty."""
    if ("error" in entry) == ("problems" in entry):
        raise KnownFailureError(
            f"{where}: write either 'error', a part of an exception's type and message, or 'problems', for numerics"
        )
    if "problems" not in entry:
        error = _parse_text(where, "error", entry["error"])
        says_nothing = _EXCEPTION_ALONE.fullmatch(error.strip()) or error.strip().startswith(EVERY_ERROR)
        if says_nothing or any(part in error for part in _EVERY_FAILURE):
            raise KnownFailureError(
                f"{where}: error {error!r} excuses more than one bug; name the exception and what its message says of "
                "the cause, such as the operator, or write 'problems'"
            )
        return error, ()
    if check != "numerics":
        raise KnownFailureError(f"{where}: 'problems' are those of numerics, and check is {check!r}; write 'error'")
    try:
        return "", excuses.parse(entry["problems"])
    except excuses.ExcuseError as wrong:
        raise KnownFailureError(f"{where}: {wrong}") from None


def _parse_backend_options(where: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """As in Settings.backend_option: "--via export", "--backend aot_eager", or "" for Inductor."""
    options = []
    for key in _RUN_OPTIONS:
        names = _parse_names(where, key, entry[key]) if key in entry else ()
        for name in names:
            if key == "via" and name not in VIA[1:]:
                raise KnownFailureError(f"{where}: via is {name!r}; write {' or '.join(VIA[1:])}, or leave it out")
            options.append("" if name == "inductor" else f"--{key} {name}")
    return tuple(options) or ("",)


def _parse_script(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise KnownFailureError(f"{where}: reproduction is {value!r}; write a script as text")
    try:
        compile(value, where, "exec")
    except SyntaxError as error:
        raise KnownFailureError(
            f"{where}: reproduction is not valid Python: line {error.lineno}: {error.msg}"
        ) from error
    return value


def _parse_text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise KnownFailureError(f"{where}: {key} is {value!r}; write a text that is not empty")
    return value


def _parse_cases(where: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    named = all(isinstance(each, Mapping) and each.get("error") for each in entry.get("problems", ()))
    if entry["case"] == EVERY_CASE and named and ("problems" in entry or "inductor-config" in entry):
        return (EVERY_CASE,)
    return _parse_names(where, "case", entry["case"])


def _parse_names(where: str, key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise KnownFailureError(f"{where}: {key} is {value!r}; write a name or a list of names")
    for name in names:
        _parse_text(where, key, name)
        if "*" in name:
            raise KnownFailureError(f"{where}: {key} {name!r} has a '*'; names are exact: list the names that fail")
    if len(set(names)) < len(names):
        raise KnownFailureError(f"{where}: {key} names {max(names, key=names.count)!r} twice")
    return tuple(names)


def release_of(torch_version: str) -> str:
    """2.15.0 for 2.15.0.dev20261101+cpu: a nightly build counts as its release."""
    return Version(torch_version).base_version
