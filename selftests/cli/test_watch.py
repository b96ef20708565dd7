"""`watch`: each save is answered, for the texts as they are now, and nothing is left at the end."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from suites import SCALE, environment

from conformance.cli.commands import watch
from conformance.cli.main import main
from conformance.cli.watching.answers import Result
from conformance.cli.watching.failures import failure_text
from conformance.cli.watching.layer_process import ignore_bytecode_of
from conformance.cli.watching.layers import STATUS
from conformance.cli.watching.messages import Channel
from conformance.cli.watching.watcher import Answered, Begun
from conformance.devices.environment import torch_build
from conformance.sources.torch_source import installed_files

WAITS = "waiting for a save"
LIMIT = 300  # seconds
EDIT = """class TritonOverrides(OpOverrides):
    @staticmethod
    def mul(a, b):
        return f"({a} * {b} + 0.0)"
"""


class Watching:
    """A process of `watch`, in a project with one file of cases."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.temporary, self.output = folder / "tmp", folder / "output.txt"
        self.temporary.mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n")
        self.cases = folder / "test_scale.py"
        self.cases.write_text(SCALE)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "conformance", "watch", "scale/double-f32", "--target", "cuda_sm90", *words],
                cwd=folder,
                env=environment({"TMPDIR": str(self.temporary)}),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._read = 0

    def text(self) -> str:
        return self.output.read_text()[self._read :]

    def answer(self) -> str:
        """The text of the next answer."""
        end = time.monotonic() + LIMIT
        while WAITS not in self.text():
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < end, self.text()
            time.sleep(0.02)
        text = self.text()
        self._read += len(text)
        return text

    def below(self) -> set[int]:
        """The processes that were started for it, directly or not."""
        found, new = set(), {self.process.pid}
        while new:
            found |= new
            children = set()
            for pid in new:
                with contextlib.suppress(OSError):
                    children |= {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
            new = children - found
        return found - {self.process.pid}

    def _is_clean(self) -> bool:
        left = list(self.temporary.rglob("*"))
        return all(path.parent == self.temporary and path.name.startswith("torchinductor_") for path in left)

    def has_ended(self, processes: set[int]) -> bool:
        """Whether all of the processes end soon, and no temporary file remains but torch's own folder, empty."""
        end = time.monotonic() + LIMIT
        while any(map(_runs, processes)) or not self._is_clean():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def save(file: Path, text: str) -> None:
    """As editors do: a new file is renamed over the old one."""
    new = file.with_name("new")
    new.write_text(text)
    new.replace(file)


@pytest.fixture
def checkout(tmp_path):
    """A folder with the Python files of the installed torch. One of them is a copy."""
    folder, torch = tmp_path / "checkout", torch_build().folder
    for path in installed_files(torch):
        (folder / "torch" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "torch" / path).symlink_to(torch / path)
    edited = folder / "torch" / "_inductor" / "codegen" / "triton.py"
    edited.unlink()
    shutil.copyfile(torch / "_inductor" / "codegen" / "triton.py", edited)
    return folder


@pytest.mark.long("a real process of watch answers several saves of a file")
def test_saves_are_answered_until_ctrl_c(checkout, tmp_path):
    (tmp_path / "project").mkdir()
    watching = Watching(tmp_path / "project", "--torch-source", str(checkout))
    first = watching.answer()
    assert "imports torch and its compiler" in first
    assert "nothing is stored for this torch to compare with; generated without the device; torch" in first
    assert "numerics    right (emulated)" in first

    save(watching.cases, SCALE.replace("x * 2", "x.relu() * 2"))
    answer = watching.answer()
    assert "kernels  1: mul (pointwise 20) → 1: relu, mul (pointwise 20)" in answer
    assert "imports" not in answer

    save(watching.cases, SCALE.replace("x * 2", "x * (2"))
    answer = watching.answer()
    assert [line for line in answer.splitlines() if "SyntaxError" in line] == [
        "scale/double-f32: test_scale.py:6: SyntaxError: '(' was never closed"
    ]

    # two saves within a moment: the text of the first one is never shown
    save(watching.cases, SCALE.replace("x * 2", "x * 333"))
    time.sleep(0.3)
    save(watching.cases, SCALE.replace("x * 2", "x * 444"))
    answer = watching.answer()
    assert "444.0" in answer
    assert "333.0" not in answer

    lowering = checkout / "torch" / "_inductor" / "codegen" / "triton.py"
    text = lowering.read_text()
    edited = text.replace("class TritonOverrides(OpOverrides):", EDIT, 1)
    save(lowering, edited)
    answer = watching.answer()
    assert "triton.py saved; imports torch's compiler\n" in answer
    assert "+    tmp2 = (tmp0 * tmp1 + 0.0)" in answer

    save(lowering, edited.replace('+ 0.0)"', "+ 0.0)"))
    broken = [line for line in watching.answer().splitlines() if "SyntaxError" in line]
    assert len(broken) == 1
    assert broken[0].startswith(f"{lowering}:")

    save(lowering, edited.replace("+ 0.0", "+ 1.0"))  # as many characters as in the text before
    answer = watching.answer()
    assert "+    tmp2 = (tmp0 * tmp1 + 1.0)" in answer
    assert "numerics    wrong (emulated)" in answer

    save(watching.cases, SCALE.replace("x * 2", "x * 444") + "\n")
    assert "# scale/double-f32 for cuda_sm90: nothing changed; generated without the device" in watching.answer()

    # the layer has imported this file only when it captured something beforehand
    pattern = checkout / "torch" / "_inductor" / "fx_passes" / "serialized_patterns" / "_sfdp_pattern_1.py"
    save(pattern, pattern.read_text() + "\nsaved = True\n")
    assert "imports torch's compiler" in watching.answer()

    watching.cases.unlink()
    assert "there is no case 'scale/double-f32'" in watching.answer()

    processes = watching.below()
    assert len(processes) == 2  # the layers
    os.kill(watching.process.pid, signal.SIGINT)
    assert watching.process.wait(LIMIT) == 130
    assert watching.has_ended(processes)


TWO_AT_ONCE = """
import socket, sys
from conformance.cli.watching.layer_process import _Layer
from conformance.cli.watching.messages import Channel

_Layer(Channel(socket.socket(fileno=int(sys.argv[1]))), {"folder": "", "role": "compiler"})._serve()
"""


def test_requests_that_arrive_together_are_both_answered():
    own, its = socket.socketpair()
    with its:
        words = [sys.executable, "-c", TWO_AT_ONCE, str(its.fileno())]
        layer = subprocess.Popen(words, env=environment({}), pass_fds=[its.fileno()])
    own.settimeout(LIMIT)
    request = f'{{"role": "{STATUS}", "pid": 1}}\n'
    own.sendall(2 * request.encode())  # one read takes both
    channel = Channel(own)
    assert [channel.receive(), channel.receive()] == [{"status": 0}] * 2
    channel.close()
    assert layer.wait(LIMIT) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_it_started_ends_with_it(number, tmp_path):
    watching = Watching(tmp_path)
    end = time.monotonic() + LIMIT
    while not (processes := watching.below()):
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(watching.process.pid, number)
    assert watching.process.wait(LIMIT) in (128 + number, -number)
    assert watching.has_ended(processes)


KILLED = """
import os, signal, subprocess, sys
from conformance.cli.watching.layers import LayerProcess

class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

subprocess.Popen = Popen
LayerProcess.start({"role": "torch", "edited": [], "folder": sys.argv[1], "tables": []}, {})
"""


def test_a_layer_removes_the_folder_of_a_watch_that_was_killed_as_it_started_the_layer(tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    killed = subprocess.run([sys.executable, "-c", KILLED, folder], check=False, env=environment({}), timeout=LIMIT)
    assert killed.returncode == -signal.SIGKILL
    end = time.monotonic() + LIMIT
    while folder.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["flip/hflip-224-u8-contiguous", "--target", "cpu_avx3"], "cpu_avx3"),
        (["flip/hflip-224-u8-contiguous", "--torch-source", "/no/such"], "there is no folder /no/such"),
    ],
)
def test_wrong_words_are_refused_at_once(words, message):
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        assert main(["watch", *words]) == 2
    assert message in errors.getvalue()


class _Events:
    def __init__(self, *events: Begun | Answered) -> None:
        self.events = lambda: iter(events)


def test_an_unknown_case_ends_it_only_at_the_beginning(capsys):
    unknown = Answered([Result("no/such", error="there is no case 'no/such'", refused=True)], "", 1.0)
    with pytest.raises(watch.WatchError, match="there is no case 'no/such'"):
        watch._print_events(_Events(Begun([], ""), unknown))
    watch._print_events(_Events(Answered([Result("a for b", text="code\n")], "", 1.0), unknown))
    assert "no/such: there is no case 'no/such'" in capsys.readouterr().out


def test_an_edit_of_the_same_size_and_second_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(SourceFileLoader, "path_stats", SourceFileLoader.path_stats)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "edited.py"

    def value(text: str) -> int:
        file.write_text(text)
        os.utime(file, (1_000_000_000, 1_000_000_000))
        names: dict[str, int] = {}
        exec(SourceFileLoader("edited", str(file)).get_code("edited"), names)  # noqa: S102
        return names["value"]

    assert value("value = 1\n") == 1
    assert value("value = 2\n") == 1  # that is Python's own rule, or this test shows nothing
    ignore_bytecode_of([str(file)])
    assert value("value = 3\n") == 3


def test_an_error_names_the_line_that_is_edited(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def call():\n    return 1 + None\n")
    names: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102
    with pytest.raises(TypeError) as raised:
        names["call"]()
    text = failure_text(raised.value, [str(file)])
    assert text.splitlines()[0].startswith(f"{file}:2: TypeError: unsupported operand")
    assert text.splitlines()[1:] == ["    return 1 + None"]
