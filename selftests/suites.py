"""Suites made for a test: a folder with operators of its own, run by a pytest of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET  # reads what our own run wrote
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.devices.environment import cache_folder
from conformance.devices.machine import Machine, instruction_sets

REPOSITORY = Path(__file__).parent.parent
CONFTEST = 'pytest_plugins = ["conformance.plugin"]\n'

#: A cpu target that this host runs, and one that it does not.
NATIVE = next((f"cpu_{isa}" for isa in Machine(isas=instruction_sets()).isas), "")
FOREIGN = "cpu_avx2" if NATIVE == "cpu_neon" else "cpu_neon"

#: Where no compiler is needed but once, for the pretended device.
SM90 = ("--target", "cuda_sm90")

SCALE = """
from conformance import case, tensor

@case(x=tensor(20, dtype=["f32", "f16"]), require={"all": {"kernels": 1}})
def test_double(x):
    return x * 2
"""


@dataclass(frozen=True)
class Ran:
    """`text`: what pytest printed, both streams."""

    status: int
    text: str

    def outcomes(self) -> dict[str, int]:
        """The last line's counts: {"passed": 2, "failed": 1}."""
        for line in reversed(self.text.splitlines()):
            if re.search(r" in \d+\.\d+s", line):
                return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z ]+?)(?=,| in )", line)}
        return {}

    def lines(self, start: str) -> list[str]:
        return [line for line in self.text.splitlines() if line.startswith(start)]

    def has(self, *texts: str) -> None:
        for text in texts:
            assert text in self.text, f"{text!r} is not in:\n{self.text}"

    def has_not(self, *texts: str) -> None:
        for text in texts:
            assert text not in self.text, f"{text!r} is in:\n{self.text}"

    def ends(self, status: int) -> Ran:
        assert self.status == status, f"status {self.status}, not {status}:\n{self.text}"
        return self


class Suite:
    """A project's folder: `ops/test_scale.py`, a conftest that loads the plugin, what a test adds."""

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
        copy = Suite.__new__(Suite)
        copy.root = root
        return copy

    def stored(self) -> dict[str, str]:
        """Every snapshot's text by its name."""
        folder = self.root / "ops" / "expected_code"
        return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.txt"))}

    def run(self, *arguments: str, env: Mapping[str, str | None] | None = None, timeout: int = 200) -> Ran:
        """`env`: variables set for this run; None takes one away."""
        process = self.start(*arguments, env=env)
        try:
            text = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Ran(process.returncode, text)

    def start(self, *arguments: str, env: Mapping[str, str | None] | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=environment(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def accept(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        return self.run(*arguments, env={"EXPECTTEST_ACCEPT": "1"} | dict(env or {}))

    def checks(self, *arguments: str, env: Mapping[str, str | None] | None = None) -> tuple[Ran, list[tuple[str, ...]]]:
        """A run, and of each entry of its JUnit XML (class, name, outcome, message's first line)."""
        file = self.root / "junit.xml"
        ran = self.run(*arguments, f"--junit-xml={file}", env=env)
        root = ET.parse(file).getroot()  # noqa: S314
        found = []
        for entry in root.iter("testcase"):
            inner = [child for child in entry if child.tag in ("failure", "error", "skipped")]
            assert len(inner) < 2, ET.tostring(entry)
            said = inner[0].get("message", "").splitlines()[0] if inner else ""
            found.append((entry.get("classname"), entry.get("name"), inner[0].tag if inner else "passed", said))
        counted = {
            name: int(count) for name, count in root[0].items() if name in ("tests", "failures", "errors", "skipped")
        }
        assert counted["tests"] == len(found), (counted, found)
        for tag, word in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert counted[word] == sum(outcome == tag for *_, outcome, _ in found), (counted, found)
        return ran, found


def environment(extra: Mapping[str, str | None]) -> dict[str, str]:
    """This process's, without what a run of pytest or of ours left in it, and without real gpus."""
    dropped = ("PYTEST_", "EXPECTTEST_", "TORCHINDUCTOR_", "TRITON_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped) and name != "CI"}
    env |= {"PYTHONPATH": str(REPOSITORY), "CONFORMANCE_CACHE": str(cache_folder()), "CUDA_VISIBLE_DEVICES": ""}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}  # a file that is edited within a second is read again
    return {name: value for name, value in (env | dict(extra)).items() if value is not None}


def section(ran: Ran, title: str) -> list[str]:
    """The lines below the heading of a failure, `test_double[f32-cuda_sm90] [code]`."""
    lines = ran.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip("_ ") == title and line.startswith("_")]
    assert starts, f"no failure {title!r} in:\n{ran.text}"
    body = [line for line in lines[starts[0] + 1 :] if not line.startswith("[gw")]  # which worker
    ends = [number for number, line in enumerate(body) if line.startswith(("____", "====", "----"))]
    return body[: min(ends, default=len(body))]
