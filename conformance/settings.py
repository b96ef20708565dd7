"""What a run was asked to do: the options of the command line and EXPECTTEST_ACCEPT, checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from conformance.errors import ConformanceError

CHECKS = ("numerics", "requirements", "code")
#: Ways to run a case: torch.compile, torch.jit.trace, torch.jit.script, torch.export.
VIA = ("compile", "jit_trace", "jit_script", "export")
#: Only where they are named: they take longer.
OPTIONAL_CHECKS = ("binary",)
ACCEPT = "EXPECTTEST_ACCEPT"


class SettingsError(ConformanceError, ValueError):
    """A wrong option; the message names what would be right."""


@dataclass(frozen=True)
class Settings:
    """`accept`: "" (not), "all" or "new". `devices`, `targets`: as given, see targets.select.
    `save_run`, `baseline`: names of runs. `backend`: of torch.compile, or `module:function`. `via`: one of VIA.
    `thorough`: with the cases that combine axes.
    `emulation`: run what is generated for gpus that are not here on the cpu.
    """

    devices: str | None = None
    targets: str | None = None
    require_device: bool = False
    checks: tuple[str, ...] = CHECKS
    accept: str = ""
    save_run: str | None = None
    baseline: str | None = None
    backend: str = "inductor"
    via: str = "compile"
    thorough: bool = False
    fail_on_drift: bool = False
    verify_deviceless: bool = False

    @property
    def backend_option(self) -> str:
        """How cases are run where Inductor's code is not captured, as it was asked for; "" where it is."""
        if self.via != "compile":
            return f"--via {self.via}"
        return f"--backend {self.backend}" if self.backend != "inductor" else ""

    emulation: bool = True


def parse_via(text: str, backend: str) -> str:
    """Raises SettingsError for an unknown way, and for a backend where torch.compile is not asked."""
    if text not in VIA:
        raise SettingsError(f"unknown --via {text!r}; known are {', '.join(VIA)}")
    if text != "compile" and backend != "inductor":
        raise SettingsError(f"--backend {backend} is one of torch.compile's: leave --via {text} out")
    return text


def parse_checks(text: str | None) -> tuple[str, ...]:
    """Raises SettingsError for an unknown check."""
    if text is None:
        return CHECKS
    known = (*CHECKS, *OPTIONAL_CHECKS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise SettingsError(f"unknown check {name!r}; known are {', '.join(known)}")
    if not names:
        raise SettingsError(f"--checks names nothing; known are {', '.join(known)}")
    return tuple(name for name in known if name in names)


def parse_accept(environment: Mapping[str, str]) -> str:
    """What EXPECTTEST_ACCEPT asks for: "" for unset, empty, 0, false; "all" for 1, true; "new".

    Raises SettingsError for another value, and where CI is set: CI compares, it never accepts.
    """
    value = environment.get(ACCEPT, "").strip().lower()
    if value in ("", "0", "false"):
        return ""
    if value not in ("1", "true", "all", "new"):
        raise SettingsError(f"{ACCEPT}={value!r} is not known: 1 accepts all, new only what is not stored, 0 nothing")
    if environment.get("CI", "").strip().lower() not in ("", "0", "false"):
        raise SettingsError(f"{ACCEPT} is set in CI: CI compares and never accepts; accept on a branch and commit")
    return "new" if value == "new" else "all"


def configure_expecttest(accept: str, *, workers: bool) -> None:
    """Gives expecttest an environment that means what ours means: it takes 0 as yes, and loses literals among workers.

    Best before expecttest is imported, since it reads the variable then; where it is already, it is told.
    """
    if accept == "all" and not workers:
        os.environ[ACCEPT] = "1"
    else:
        os.environ.pop(ACCEPT, None)
    if "expecttest" in sys.modules:
        sys.modules["expecttest"].ACCEPT = os.environ.get(ACCEPT)
