"""Reads and checks the device matrix (matrix.toml), and gives the command of each row."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

FILE = Path(__file__).with_name("matrix.toml")
#: `.ci/run` runs the rows of one turn beside those without a turn: any four runs at successive commits run all rows.
TURNS = 4
#: What a row of the suite without arguments runs on. A device that is named must run; others are only counted.
EVERYWHERE = ["--device", "cpu,cuda,xpu"]


class MatrixError(ValueError):
    """The matrix is written wrongly: the message names the row."""


@dataclass(frozen=True)
class Runner:
    """A kind of machine. `index`, `enabled`: names of repository variables, "" for none; see matrix.toml."""

    name: str
    labels: str | list[str]
    machine: str = ""
    index: str = ""
    enabled: str = ""

    @property
    def hosted(self) -> bool:
        return not self.enabled


@dataclass(frozen=True)
class Row:
    """One job. `python`, `torch`: versions such as "3.12" and "2.13", or ""; see matrix.toml."""

    name: str
    runner: Runner
    env: str
    minutes: int
    holds: str
    python: str = ""
    torch: str = ""
    args: list[str] = field(default_factory=list)
    short: list[list[str]] = field(default_factory=list)
    short_env: str = ""
    turn: int = 0
    exact_python: bool = False
    packages: list[str] = field(default_factory=list)

    @property
    def tox_env(self) -> str:
        return f"{self.env}-torch{self.torch}" if self.torch else self.env

    def command(self) -> list[str]:
        """The command of the job, for the root of the checkout. Put the Python that runs it in front."""
        command = ["ci/tox", "-e", self.tox_env]
        if self.env in ("lint", "determinism", "benchmarks"):
            return command
        if self.env == "examples":
            return [*command, "--", *self.args]
        if self.env == "docs":
            return [*command, "--", "-o", ".conformance/site"]
        if self.env == "commands":
            return [*command, "--", *self.args]
        everywhere = EVERYWHERE if self.env == "suite" and not self.args else []
        pytest = [*everywhere, *self.args, f"--junitxml=.conformance/junit/{self.name}.xml"]
        if self.env != "selftests":
            pytest += ["--save-run", self.name, "--fresh"]  # a self-hosted machine keeps its cache folder
        return [*command, "--", *pytest]

    def short_commands(self) -> list[list[str]]:
        """The commands of the short form: none if `.ci/run` leaves the row out."""
        environment = self.short_tox_env
        return [["ci/tox", "-e", environment, *(["--", *arguments] if arguments else [])] for arguments in self.short]

    @property
    def short_tox_env(self) -> str:
        return self.short_env or self.tox_env


def load(file: Path = FILE) -> list[Row]:
    """Returns all rows, in the order of the file. Raises MatrixError for wrong keys, runners and names."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    runners = {
        name: _construct(Runner, f"runner {name}", {"name": name, **table}) for name, table in data["runner"].items()
    }
    rows: dict[str, Row] = {}
    for table in data["row"]:
        name = table.get("name", "")
        where = f"row {name or table}"
        if not re.fullmatch(r"[a-z0-9.-]+", name):
            raise MatrixError(f"{where}: a name consists of a-z, 0-9, '.' and '-'")
        if name in rows:
            raise MatrixError(f"{where}: another row has this name")
        if table.get("runner") not in runners:
            raise MatrixError(f"{where}: unknown runner {table.get('runner')!r}; known are {', '.join(runners)}")
        rows[name] = row = _construct(Row, where, {**table, "runner": runners[table["runner"]]})
        if row.turn not in range(TURNS + 1):
            raise MatrixError(f"{where}: turn is {row.turn!r}; write 1 to {TURNS}, or leave it out for every turn")
        if row.turn and not row.short:
            raise MatrixError(f"{where}: it has a turn and no `short`, so the turn would run nothing of it")
    return list(rows.values())


def _construct(kind: type, where: str, table: dict[str, Any]) -> Any:
    known = {key.name: key.default is MISSING and key.default_factory is MISSING for key in fields(kind)}
    for key in table:
        if key not in known:
            raise MatrixError(f"{where}: unknown key {key!r}; known are {', '.join(known)}")
    for key, is_required in known.items():
        if is_required and key not in table:
            raise MatrixError(f"{where}: the key {key!r} is missing")
    return kind(**table)
