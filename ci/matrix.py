"""The device matrix, read from matrix.toml and checked; what a row means as a command."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

FILE = Path(__file__).with_name("matrix.toml")


class MatrixError(ValueError):
    """A matrix that is written wrongly: the message names the row."""


@dataclass(frozen=True)
class Runner:
    """A kind of machine. `index`, `enabled`: names of repository variables, empty for none; see matrix.toml."""

    name: str
    labels: str | list[str]
    index: str = ""
    enabled: str = ""

    @property
    def hosted(self) -> bool:
        return not self.enabled


@dataclass(frozen=True)
class Row:
    """One job. `python`, `torch`: versions such as "3.12" and "2.13", or empty; see matrix.toml."""

    name: str
    runner: Runner
    env: str
    minutes: int
    python: str = ""
    torch: str = ""
    args: list[str] = field(default_factory=list)

    @property
    def tox_env(self) -> str:
        return f"{self.env}-torch{self.torch}" if self.torch else self.env

    def command(self) -> list[str]:
        """What the job runs, from the root of the checkout; the Python to run it with goes in front."""
        command = ["ci/tox", "-e", self.tox_env]
        if self.env == "lint":
            return command
        pytest = [*self.args, f"--junitxml=.conformance/junit/{self.name}.xml"]
        if self.env != "selftests":
            pytest += ["--save-run", self.name]
        return [*command, "--", *pytest]


def load(file: Path = FILE) -> list[Row]:
    """All rows, in the order of the file. Raises MatrixError for unknown keys and runners and for a name used twice."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    runners = {name: _made(Runner, f"runner {name}", {"name": name, **table}) for name, table in data["runner"].items()}
    rows: dict[str, Row] = {}
    for table in data["row"]:
        name = table.get("name", "")
        where = f"row {name or table}"
        if not re.fullmatch(r"[a-z0-9.-]+", name):
            raise MatrixError(f"{where}: a name is made of a-z, 0-9, '.' and '-'")
        if name in rows:
            raise MatrixError(f"{where}: the name is used twice")
        if table.get("runner") not in runners:
            raise MatrixError(f"{where}: runner {table.get('runner')!r} is none of {', '.join(runners)}")
        rows[name] = _made(Row, where, {**table, "runner": runners[table["runner"]]})
    return list(rows.values())


def _made(kind: type, where: str, table: dict[str, Any]) -> Any:
    try:
        return kind(**table)
    except TypeError as error:  # says which key is missing or too many
        raise MatrixError(f"{where}: {str(error).replace(f'{kind.__name__}.__init__()', 'it')}") from error
