"""Where the commands of the pages run: clones, projects and environments below one folder, and the reader's home."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from documented_commands import ROOT, Command

import examples

#: Instead of the exit status of a command that ended before it printed what was waited for.
NOT_PRINTED = -1000
#: Variables that would change what a command does.
_CHANGING = re.compile(
    "CI|EXPECTTEST_ACCEPT|PYTHONPATH|PYTEST_.*|CONFORMANCE_.*|GITHUB_.*|TOX_.*|VIRTUAL_ENV|XDG_CACHE_HOME"
)
#: The author of the commits that are made here.
_AUTHOR = ("-c", "user.name=reader", "-c", "user.email=reader@example.org")


class Places:
    """The folders and environments in which commands run. Each page has its own.

    `files`: what the pages give; a place has the files of its page. `cache`: the cache folder of the commands.
    `installed`: every place is this folder, with the packages of this Python.
    """

    def __init__(
        self, folder: Path, files: Sequence[Command] = (), cache: Path | None = None, installed: Path | None = None
    ) -> None:
        self.installed = installed
        self.folder, self.files, self.cache = folder, files, cache or folder / "cache"
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        (self.home / ".gitconfig").write_text(
            "[user]\n\tname = reader\n\temail = reader@example.org\n", encoding="utf-8"
        )
        self._known: dict[tuple[str, str], tuple[Path, Path]] = {}

    def place(self, page: str, name: str) -> tuple[Path, Path]:
        """The folder and the Python of a place of a page."""
        if (page, name) not in self._known:
            folder, python = self._made(page, name)
            for each in self.files:
                if (each.page, each.place) == (page, name):
                    (folder / each.file).parent.mkdir(parents=True, exist_ok=True)
                    (folder / each.file).write_text(each.text, encoding="utf-8")
            self._known[page, name] = folder, python
        return self._known[page, name]

    def _made(self, page: str, name: str) -> tuple[Path, Path]:
        if self.installed:
            self.installed.mkdir(parents=True, exist_ok=True)
            return self.installed, Path(sys.executable)
        folder = self.folder / re.sub(r"\W+", "-", page.removesuffix(".md")) / name.replace(" ", "-")
        folder.parent.mkdir(parents=True, exist_ok=True)
        python = examples.new_environment(folder.with_name(f"{folder.name}-environment"))
        _add_scripts(python)
        if name in ("checkout", "workflow"):
            _git(None, "clone", "--quiet", self.clone, folder)
            _git(folder, "remote", "remove", "origin")
            if name == "workflow":
                return folder, python
            _quiet(examples.install, python, "--no-deps", "--no-build-isolation", "-e", folder)
            return folder, python
        if name.startswith("example "):
            shutil.copytree(self.clone / "examples" / name.removeprefix("example "), folder)
            _git(folder, "init", "--quiet")
            _commit(folder)
        folder.mkdir(exist_ok=True)
        ours = [each for each in self.wheels if name != "own project" or "_suite-" not in each.name]
        _quiet(examples.install, python, "--force-reinstall", "--no-deps", *ours)
        return folder, python

    @cached_property
    def clone(self) -> Path:
        """A clone of the checkout. What is changed there and not committed is a commit of the clone."""
        folder = self.folder / "clone"
        _git(None, "clone", "--quiet", ROOT, folder)
        changed = _git(ROOT, "ls-files", "-z", "--modified", "--others", "--exclude-standard").split("\0")
        changed += _git(ROOT, "diff", "--name-only", "-z", "HEAD").split("\0")
        for name in set(filter(None, changed)):
            (folder / name).unlink(missing_ok=True)
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        if _git(folder, "status", "--porcelain"):
            print("files that are changed in the checkout are tested as they are", flush=True)
            _commit(folder)
        return folder

    @cached_property
    def wheels(self) -> list[Path]:
        """The wheels of all distributions."""
        folder = self.folder / "wheels"
        _quiet(examples.build, folder, [str(self.clone / each) for each in (*examples.PARTS, "suite")])
        wheels = sorted(folder.glob("*.whl"))
        lines = [f"{each.name.partition('-')[0]} @ {each.as_uri()}\n" for each in wheels]
        (self.folder / "constraints.txt").write_text("".join(lines), encoding="utf-8")
        return wheels

    def environment(self, python: Path) -> dict[str, str]:
        """The variables of a command. Nothing of this process leaks that changes what it does; there is no GPU."""
        env = {name: value for name, value in os.environ.items() if not _CHANGING.fullmatch(name)}
        pip = Path("~/.config/pip/pip.conf").expanduser()
        return {
            **({"PIP_CONFIG_FILE": str(pip)} if pip.exists() else {}),
            **env,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(python.parent), str(Path(sys.executable).parent), env["PATH"]]),
            "CONFORMANCE_CACHE": str(self.cache),
            "CUDA_VISIBLE_DEVICES": "",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTEST_XDIST_AUTO_NUM_WORKERS": str(min(4, os.cpu_count() or 1)),
        }

    def run(self, command: Command, limit: float) -> tuple[int | None, str]:
        """Does what comes before a command, and runs it. Returns its exit status, None after the limit, and its output.

        Raises BeforeError if what comes before it fails.
        """
        folder, python = self.place(command.page, command.place)
        text, before = command.as_run(), command.values("before")
        env = self.environment(python) | {"PLACE": str(folder)}
        if command.place == "workflow":
            env |= workflow_variables(folder)
        if any("$CHECKOUT" in each for each in (text, *before)):
            env["CHECKOUT"] = str(self.place(command.page, "checkout")[0])
        if any("~/pytorch" in each for each in (text, *before)):
            make_pytorch(self.home / "pytorch")
        # The wheels stand for what an index has.
        if command.place not in ("checkout", "workflow") and any("pip install" in each for each in (text, *before)):
            env["PIP_FIND_LINKS"] = f"{self.wheels[0].parent} {env.get('PIP_FIND_LINKS', '')}"
            env["PIP_CONSTRAINT"] = str(self.folder / "constraints.txt")
        for each in command.values("writes"):
            name, _, line = each.partition(": ")
            (folder / name).write_text(f"{line}\n", encoding="utf-8")
        for each in before:
            status, output = execute(each, folder, env, limit)
            if status:
                raise BeforeError(f"before it, {each!r} ended with status {status}\n{output}")
        return execute(text, folder, env, limit, command.value("ends at"), command.value("answers"))


def workflow_variables(folder: Path) -> dict[str, str]:
    """The variables of GitHub's machines that our workflows and CI scripts read. RUNNER_TEMP is beside the clone."""
    temporary = folder.with_name(f"{folder.name}-temporary")
    temporary.mkdir(exist_ok=True)
    return {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_REF_NAME": "main",
        "GITHUB_STEP_SUMMARY": str(temporary / "summary.md"),
        "RUNNER_TEMP": str(temporary),
    }


class BeforeError(RuntimeError):
    """What stands for the reader's own doing failed. The message has its output."""


def execute(
    text: str, folder: Path, env: dict[str, str], limit: float, ends_at: str = "", answers: str = ""
) -> tuple[int | None, str]:
    """Runs a line of bash. Returns its exit status, None after so many seconds, and its output."""
    process = subprocess.Popen(
        ["bash", "-c", text],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Event()

    def kill() -> None:
        late.set()
        _end(process, signal.SIGKILL)

    timer = threading.Timer(limit, kill)
    timer.start()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(answers.replace("\\n", "\n"))
        process.stdin.close()
    lines, ended = [], False
    for line in process.stdout:
        lines.append(line)
        if ends_at and not ended and ends_at in line:
            ended = True
            time.sleep(1)
            _end(process, signal.SIGINT)
    status = process.wait()
    timer.cancel()
    _end(process, signal.SIGKILL)  # what it left in the background
    if late.is_set():
        return None, "".join(lines)
    if ends_at:
        status = NOT_PRINTED if not ended else 0 if status in (0, 130, -signal.SIGINT) else status
    return status, "".join(lines)


def _end(process: subprocess.Popen[str], sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, sign)


def make_pytorch(folder: Path) -> None:
    """Makes the reader's checkout of PyTorch from the installed files, if it is not there.

    Its tag v2.13.0 is what is installed. On main are two commits more, of which the last changes the code of all cases.
    """
    if folder.exists():
        return
    source = Path(importlib.util.find_spec("torch").origin).parent
    for file in source.rglob("*.py"):
        target = folder / "torch" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    options = folder / "torch" / "_inductor" / "config.py"
    text = options.read_text(encoding="utf-8")
    old, new = '"TORCHINDUCTOR_SIZE_ASSERTS", "1"', '"TORCHINDUCTOR_SIZE_ASSERTS", "0"'
    if old not in text:
        raise ValueError(f"{options} has no {old}: choose another change")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for edited in (text, f"{text}# later\n", text.replace(old, new)):
        options.write_text(edited, encoding="utf-8")
        _commit(folder)
        if edited == text:
            _git(folder, "tag", "v2.13.0")


def _add_scripts(python: Path) -> None:
    """Writes `pytest` and `pip` into an environment that sees both and has neither's script."""
    scripts = {
        "pytest": f"#!{python}\nimport sys\n\nimport pytest\n\nsys.exit(pytest.main())\n",
        "pip": f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pip --python {shlex.quote(str(python))} "$@"\n',
    }
    for name, text in scripts.items():
        file = python.with_name(name)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)


def _commit(folder: Path) -> None:
    _git(folder, "add", "--all")
    _git(folder, *_AUTHOR, "commit", "--quiet", "--message", "As it is")


def _git(folder: Path | None, *words: str | Path) -> str:
    """What git prints."""
    return subprocess.run(
        ["git", *map(str, words)], cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ).stdout


def _quiet(function: Callable[..., None], *words: object) -> None:
    """Calls a function that starts processes. Their output is shown if it fails."""
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(1), os.dup(2)]
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            function(*words)
        except subprocess.CalledProcessError:
            file.seek(0)
            os.write(kept[1], file.read())
            raise
        finally:
            for number, old in enumerate(kept, start=1):
                os.dup2(old, number)
                os.close(old)
