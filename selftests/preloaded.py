"""Pytest processes that have torch and Inductor from the start: importing them takes most of a small run's time.

A template process prepares as the plugin does, imports torch, Inductor and the rooms, and forks for each run. The fork
is a process of its own, as `python -m pytest` would be, and so are the workers that pytest-xdist starts in it. They
differ in this: preparing and importing have happened, and they end without Python's last clean-up, which would touch
every object of torch. So tests of just these start a real process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

#: Variables that nothing reads before pytest starts: a run may have others of these than its template.
LATE_VARIABLES = ("EXPECTTEST_ACCEPT", "CI", "GITHUB_", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")


def is_late(name: str) -> bool:
    """Whether a run may have another value of this variable than its template."""
    return name.startswith(LATE_VARIABLES)


def run(arguments: Sequence[str], folder: Path, env: Mapping[str, str], timeout: int) -> tuple[int, str]:
    """Runs pytest in a folder. Returns its exit status and what it printed. Raises subprocess.TimeoutExpired.

    `env`: the environment. Calls that differ only in LATE_VARIABLES share a template.
    """
    template = _template(tuple(sorted((name, value) for name, value in env.items() if not is_late(name))))
    assert template.stdin is not None
    assert template.stdout is not None
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8", errors="replace") as output:
        request = {"arguments": list(arguments), "folder": str(folder), "output": output.name, "timeout": timeout}
        template.stdin.write(json.dumps(request | {"env": dict(env)}) + "\n")
        template.stdin.flush()
        status = json.loads(template.stdout.readline())
        if status is None:
            raise subprocess.TimeoutExpired(["pytest", *arguments], timeout, output.read())
        return status, output.read()


@functools.cache
def _template(env: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__], env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _serve() -> dict[str, Any] | None:
    """Forks for each request. Returns the request in the forks, and None at the end."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            answers.close()
            return request
        answers.write(json.dumps(_status(child, request["timeout"])) + "\n")
        answers.flush()
    return None


def _status(child: int, timeout: float) -> int | None:
    """The exit status of a child; None after the time limit, when its process group is killed."""
    watched = os.pidfd_open(child)
    try:
        ended = bool(select.select([watched], [], [], timeout)[0])
    finally:
        os.close(watched)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if ended else None


class Worker:
    """A forked process that waits to become a worker of pytest-xdist: what execnet uses of subprocess.Popen."""

    waiting: ClassVar[list[Worker]] = []

    def __init__(self) -> None:
        control, self._control = os.pipe()
        reads, stdin = os.pipe()
        stdout, writes = os.pipe()
        self.pid = os.fork()
        if self.pid:
            for descriptor in (control, reads, writes):
                os.close(descriptor)
            self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
            self.waiting.append(self)
            return
        for descriptor in (self._control, stdin, stdout):
            os.close(descriptor)
        for other in self.waiting:  # otherwise their pipes never end
            os.close(other._control)
            other.stdin.close()
            other.stdout.close()
        with os.fdopen(control) as pipe:
            text = pipe.read()
        if not text:
            os._exit(0)  # nobody needs it
        start = json.loads(text)
        _set_environment(start["env"])
        os.chdir(start["folder"])
        os.dup2(reads, 0)
        os.dup2(writes, 1)
        os.close(reads)
        os.close(writes)
        sys.stdin, sys.argv = os.fdopen(0, closefd=False), ["-c"]
        _end(_work)

    def begin(self) -> Worker:
        with os.fdopen(self._control, "w") as pipe:
            json.dump({"env": dict(os.environ), "folder": str(Path.cwd())}, pipe)
        return self

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _work() -> None:
    """What `python -c` does in a worker that execnet starts."""
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})  # noqa: S102, S307 - execnet's own start


def _fork_workers(count: int) -> None:
    """Forks workers while this process has one thread, and gives them to execnet. Further ones are real processes."""
    from execnet.gateway_base import Popen2IO
    from execnet.gateway_io import Popen2IOMaster

    for _ in range(count):
        Worker()
    original = Popen2IOMaster.__init__

    def forked(self: Any, args: Sequence[str], execmodel: Any) -> None:
        if not Worker.waiting:
            original(self, args, execmodel)
            return
        self.popen = Worker.waiting.pop(0).begin()
        Popen2IO.__init__(self, self.popen.stdin, self.popen.stdout, execmodel=execmodel)

    Popen2IOMaster.__init__ = forked


def _workers(arguments: Sequence[str]) -> int:
    """The number after `-n`."""
    text = arguments[arguments.index("-n") + 1] if "-n" in arguments else "0"
    return int(text) if text.isdigit() else 0


def _set_environment(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)


def _end(function: Callable[[], Any]) -> None:
    """Calls it, runs exit handlers, and ends this process with the status that it returns or raises."""
    status: Any = 1
    try:
        status = function()
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 - this process ends here, as an interpreter would
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(int(status or 0))


def _import_all() -> None:
    """Imports what a run imports, but no plugin of pytest, and nothing that imports one."""
    import pytest  # noqa: F401 - torch does not import it

    from conformance.capture.preloading import import_below, import_compiler

    import_compiler()
    left = (
        "models",
        "ops",
        "sweep",
        "__main__",
        "plugin",
        "harness.schedule.batch_scheduling",
        "harness.reproduction.standalone",
    )
    import_below("conformance", [f"conformance.{name}" for name in left])
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        package = sys.modules.get(plugin.module.partition(".")[0])
        if package is not None:  # pytest warns that it cannot rewrite what is imported already, unless it says so
            package.__doc__ = f"{package.__doc__ or ''} PYTEST_DONT_REWRITE"


def main() -> None:
    from conformance.capture.deviceless.prepare import prepare
    from conformance.harness.garbage_collection import off_while_loading

    prepare()
    changed = dict(os.environ)
    with off_while_loading():
        _import_all()

    request = _serve()
    if request is None:
        return
    os.setsid()
    os.chdir(request["folder"])
    _set_environment(changed | {name: value for name, value in request["env"].items() if is_late(name)})
    with Path(request["output"]).open("wb") as output, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.path[0] = ""  # as `python -m pytest` has it
    sys.argv = ["pytest", *request["arguments"]]
    _fork_workers(_workers(request["arguments"]))
    import pytest

    _end(pytest.main)


if __name__ == "__main__":
    main()
