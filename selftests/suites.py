"""Small suites for a test: a folder with case files, and a pytest process that runs it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET  # reads our own file
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
import tomli_w

from conformance.cases.special_values import FLOATING
from conformance.devices.cache_folder import cache_folder
from conformance.devices.environment import HIDE_GPUS
from conformance.devices.machine import Machine, instruction_sets
from conformance.devices.targets import targets

REPOSITORY = Path(__file__).parent.parent
_PYTEST = ("-m", "pytest", "-p", "no:cacheprovider")
CONFTEST = 'pytest_plugins = ["conformance.plugin"]\n'

#: A cpu target that this machine runs ("" if none), and one that it does not run.
NATIVE = next((f"cpu_{isa}" for isa in Machine(isas=instruction_sets()).isas), "")
FOREIGN = "cpu_avx2" if NATIVE == "cpu_neon" else "cpu_neon"

#: The exit status of a run with an entry that excuses nothing, in a project without conformance_strict_torch.
STALE_STATUS = 1

#: For an entry of known_failures: the output's numbers are wrong, in any call and by any amount.
ALL_CALLS = str(["first", "second", "sizes + 1", "sizes × 2 - 1", *FLOATING])
_CHANGES = '["0 → number", "-0 → number", "number → 0", "number → inf", "number → -inf", "number → number"]'
WRONG_OUTPUT = (
    f'problems = [{{ call = {ALL_CALLS}, tensor = "output", rule = "values", changes = {_CHANGES}, off_by = 1e39 }}]'
)

#: Options for a run that needs the C++ compiler only once, for the pretended device.
SM90 = ("--target", "cuda_sm90")

SCALE = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]), require={"all": {"kernels": 1}})
def test_double(x):
    return x * 2
"""


def further_table(name: str = "cuda_mine") -> str:
    """A table with one row, for --targets: cuda_sm90 under another name, and of another size."""
    row = targets()["cuda_sm90"]
    values = {key: value for key, value in row.to_json().items() if value and key not in ("name", "table")}
    values["properties"] = {**row.properties, "multi_processor_count": 77}
    return tomli_w.dumps({name: {**values, "capability": list(row.capability)}})


def empty_cache(folder: Path) -> Path:
    """A new cache folder, for CONFORMANCE_CACHE. It has the pretended device, which takes a minute to build."""
    cache = folder / "cache"
    cache.mkdir()
    for library in cache_folder().glob("pretend_device-*.so"):
        shutil.copy2(library, cache)
    return cache


@dataclass(frozen=True)
class PytestResult:
    """`status`: pytest's exit status. `text`: what it printed, stdout and stderr."""

    status: int
    text: str

    def outcomes(self) -> dict[str, int]:
        """The counts of the last line: {"passed": 2, "failed": 1}."""
        for line in reversed(self.text.splitlines()):
            if re.search(r" in \d+\.\d+s", line):
                return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z ]+?)(?=,| in )", line)}
        return {}

    def lines(self, start: str) -> list[str]:
        return [line for line in self.text.splitlines() if line.startswith(start)]

    def has(self, *texts: str) -> PytestResult:
        for text in texts:
            assert text in self.text, f"{text!r} is not in:\n{self.text}"
        return self

    def has_not(self, *texts: str) -> None:
        for text in texts:
            assert text not in self.text, f"{text!r} is in:\n{self.text}"

    def ends(self, status: int) -> PytestResult:
        assert self.status == status, f"status {self.status}, not {status}:\n{self.text}"
        return self


class Suite:
    """A project's folder with pytest.ini, a conftest that loads the plugin, and the files that a test writes."""

    def __init__(self, root: Path, conftest: str = CONFTEST) -> None:
        self.root = root
        self.write("pytest.ini", "[pytest]\n")
        self.write("conftest.py", conftest)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def copy_to(self, root: Path) -> Suite:
        shutil.copytree(self.root, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".conformance"))
        copy = self.__class__.__new__(self.__class__)
        copy.root = root
        return copy

    def stored(self) -> dict[str, str]:
        """Every snapshot's text by its name."""
        folder = self.root / "ops" / "expected_code"
        return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.txt"))}

    def run(self, *arguments: str, env: Mapping[str, str | None] | None = None, timeout: int = 200) -> PytestResult:
        """Runs pytest in the folder. `env`: variables to set, or to unset (None). `timeout`: in seconds."""
        return _result(self.start(*arguments, env=env), timeout)

    def start(self, *arguments: str, env: Mapping[str, str | None] | None = None) -> subprocess.Popen[str]:
        return started(sys.executable, self.root, environment(env or {}), *_PYTEST, *arguments)

    def accept(self, *arguments: str, env: Mapping[str, str] | None = None) -> PytestResult:
        return self.run(*arguments, env={"EXPECTTEST_ACCEPT": "1"} | dict(env or {}))

    def checks(
        self, *arguments: str, env: Mapping[str, str | None] | None = None
    ) -> tuple[PytestResult, list[tuple[str, ...]]]:
        """A run, and (class, name, outcome, first line of the message) for each entry of its JUnit XML."""
        file = self.root / "junit.xml"
        ran = self.run(*arguments, f"--junit-xml={file}", env=env)
        root = ET.parse(file).getroot()  # noqa: S314
        entries = []
        for entry in root.iter("testcase"):
            inner = [child for child in entry if child.tag in ("failure", "error", "skipped")]
            assert len(inner) < 2, ET.tostring(entry)
            message = inner[0].get("message", "").splitlines()[0] if inner else ""
            entries.append((entry.get("classname"), entry.get("name"), inner[0].tag if inner else "passed", message))
        counted = {
            name: int(count) for name, count in root[0].items() if name in ("tests", "failures", "errors", "skipped")
        }
        assert counted["tests"] == len(entries), (counted, entries)
        for tag, word in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert counted[word] == sum(outcome == tag for *_, outcome, _ in entries), (counted, entries)
        return ran, entries


class PreloadedSuite(Suite):
    """A suite whose runs start with torch and Inductor imported: see preloaded.py.

    `run_alone` and `start` import them themselves.
    """

    run_alone = Suite.run

    def run(self, *arguments: str, env: Mapping[str, str | None] | None = None, timeout: int = 200) -> PytestResult:
        variables = environment(env or {})
        return _result(started(preloaded.python(variables), self.root, variables, *_PYTEST, *arguments), timeout)


def started(program: str, folder: Path, env: Mapping[str, str], *words: str) -> subprocess.Popen[str]:
    """Starts a program in a folder, as a process group of its own. What it prints goes to one pipe."""
    return subprocess.Popen(
        [program, *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _result(process: subprocess.Popen[str], timeout: int) -> PytestResult:
    """Raises subprocess.TimeoutExpired after `timeout` seconds, when the process group is killed."""
    try:
        text = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return PytestResult(process.returncode, text)


def environment(extra: Mapping[str, str | None]) -> dict[str, str]:
    """This process's environment without variables of pytest and of an earlier run, and without real GPUs."""
    dropped = ("PYTEST_", "EXPECTTEST_", "TORCHINDUCTOR_", "TRITON_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped) and name != "CI"}
    env |= {"PYTHONPATH": str(REPOSITORY), "CONFORMANCE_CACHE": str(cache_folder())} | HIDE_GPUS
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}  # without .pyc files, an edit within a second is read
    return {name: value for name, value in (env | dict(extra)).items() if value is not None}


def run_python(
    *words: object, folder: Path | None = None, env: Mapping[str, str | None] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs `python WORDS` with torch and Inductor imported: see preloaded.py. `options`: of subprocess.run."""
    variables = environment(env or {})
    command = [preloaded.python(variables), *map(str, words)]
    options = {"capture_output": True} | options
    return subprocess.run(command, cwd=folder, env=variables, text=True, check=False, **options)


def section(ran: PytestResult, title: str) -> list[str]:
    """The lines below the heading of a failure, `test_double[f32-cuda_sm90] [code]`."""
    lines = ran.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip("_ ") == title and line.startswith("_")]
    assert starts, f"no failure {title!r} in:\n{ran.text}"
    body = [line for line in lines[starts[0] + 1 :] if not line.startswith("[gw")]  # the lines that name a worker
    ends = [number for number, line in enumerate(body) if line.startswith(("____", "====", "----"))]
    return body[: min(ends, default=len(body))]
