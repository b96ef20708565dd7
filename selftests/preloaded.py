"""Python processes that have torch and Inductor from the start: importing them takes most of a small run's time.

A template process prepares as the plugin does, imports torch, Inductor and the rooms, and forks for each run. The fork
is a process of its own, as `python -m pytest` would be, and so are the processes of Python that it starts, such as
workers of pytest-xdist: they are forks of the template too. They differ in this: preparing and importing have happened,
and they end without Python's last clean-up, which would touch every object of torch. So tests of just these start a
real process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded_client

#: Templates that are kept, each with some hundred MB.
_KEPT = 4
#: Early variables, as JSON → the template, the one that was used last at the end.
_templates: dict[str, subprocess.Popen[str]] = {}


def python(env: Mapping[str, str]) -> str:
    """A program to start in place of `python`, with these variables: a fork of a template does its work.

    Calls whose variables differ only in late ones share a template: see preloaded_client.py.
    """
    variables = json.dumps(preloaded_client.early(env))
    _templates[variables] = _templates.pop(variables, None) or _started(variables)
    while len(_templates) > _KEPT:
        ended = _templates.pop(next(iter(_templates)))
        assert ended.stdin is not None
        ended.stdin.close()
        ended.wait()
    return str(Path(_folder().name) / "python")


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the sockets of templates, and the program."""
    folder = tempfile.TemporaryDirectory(prefix="preloaded-")
    interpreter, program = (Path(folder.name) / name for name in ("interpreter", "python"))
    interpreter.symlink_to(sys.executable)
    lines = [
        f"#!{interpreter} -IS",  # starts in a third of the time
        "import sys",
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})",
        "import preloaded_client",
        f"preloaded_client.main({folder.name!r}, {sys.executable!r}, sys.argv[1:])",
    ]
    program.write_text("\n".join(lines), encoding="utf-8")
    program.chmod(0o700)
    return folder


def _started(variables: str) -> subprocess.Popen[str]:
    """The template with these early variables, as JSON. It ends with this process, whose pipe it reads."""
    from conformance.devices.cache_folder import cache_folder

    env = json.loads(variables)
    process = subprocess.Popen(
        [sys.executable, __file__, _folder().name],
        env=env | {"CONFORMANCE_CACHE": str(cache_folder())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@dataclass(frozen=True)
class _Request:
    """What a client asks for. `streams`: descriptors of its stdin, stdout and stderr."""

    words: list[str]
    env: dict[str, str]
    folder: str
    streams: list[int]


@dataclass(frozen=True)
class _Fork:
    """A fork that runs. `ends`: a descriptor that can be read when it has ended."""

    pid: int
    ends: int
    client: socket.socket

    def close(self) -> None:
        os.close(self.ends)
        self.client.close()

    def kill(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not made its group yet
            os.kill(self.pid, signal.SIGKILL)


def _received(client: socket.socket) -> _Request:
    _, streams, *_ = socket.recv_fds(client, 1, 3)
    with client.makefile("r") as requests:
        return _Request(**json.loads(requests.readline()), streams=streams)


def _serve(listener: socket.socket) -> _Request | None:
    """Forks for each request. Returns the request in the forks, and None when the process that uses this one ends."""
    forks: list[_Fork] = []
    while True:
        waits = [0, listener, *(fork.ends for fork in forks), *(fork.client for fork in forks)]
        ready = select.select(waits, [], [])[0]
        for fork in list(forks):
            if fork.ends in ready:
                status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
                with contextlib.suppress(OSError):  # the client was killed
                    fork.client.sendall(f"{status}\n".encode())
                fork.close()
                forks.remove(fork)
            elif fork.client in ready:  # its client has ended before it
                fork.kill()
        if 0 in ready:
            for fork in forks:
                fork.kill()
            return None
        if listener in ready:
            client, _ = listener.accept()
            request = _received(client)
            pid = os.fork()
            if not pid:
                _close([listener, client, *forks])
                return request
            for stream in request.streams:
                os.close(stream)
            client.sendall(f"{pid}\n".encode())
            forks.append(_Fork(pid, os.pidfd_open(pid), client))


def _close(ends: Iterable[socket.socket | _Fork]) -> None:
    for end in ends:
        end.close()


def _redirect(program: str) -> None:
    """Lets this process start the program in place of its own Python."""
    original = subprocess.Popen.__init__

    def redirected(self: Any, args: Any, *positional: Any, **options: Any) -> None:
        is_python = isinstance(args, (list, tuple)) and args and args[0] == sys.executable
        if is_python and not options.get("pass_fds") and not options.get("preexec_fn"):
            args = [program, *args[1:]]
        original(self, args, *positional, **options)

    subprocess.Popen.__init__ = redirected  # type: ignore[method-assign]


def _become(request: _Request, dropped: Sequence[str]) -> None:
    """Gives this process what the client's has. `dropped`: variables that preparing removed."""
    import torch

    from conformance.capture.deviceless import prepare
    from conformance.devices.cache_folder import set_cache_variables

    os.setsid()
    os.chdir(request.folder)
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    added = {"SYMPY_CACHE_SIZE": os.environ["SYMPY_CACHE_SIZE"]}
    os.environ.clear()
    os.environ.update(added | {name: value for name, value in request.env.items() if name not in dropped})
    prepare._process.others = prepare._cache_variables()
    set_cache_variables()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))


def _run(words: list[str]) -> None:
    """What `python WORDS` does."""
    while words[0] in ("-u", "-W"):
        if words.pop(0) == "-W":
            warnings.simplefilter(words.pop(0))  # type: ignore[arg-type]
    sys.path[0] = ""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(sys.modules["__main__"]))  # noqa: S102
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def _end(function: Callable[[], Any]) -> None:
    """Calls it, runs exit handlers, and ends this process with the status that it raises."""
    status: Any = 1
    try:
        status = function()
    except SystemExit as end:
        status = end.code
        if not isinstance(status, (int, type(None))):
            print(status, file=sys.stderr)
            status = 1
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
    from conformance.compiler.garbage_collection import off_while_loading
    from conformance.devices.machine import Machine
    from conformance.devices.targets import GPUS

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is imported or built may print
    folder, variables = sys.argv[1], dict(os.environ)
    prepared = prepare(GPUS if Machine.detect().gpus else ())
    with off_while_loading():
        _import_all()

    with socket.socket(socket.AF_UNIX) as listener:
        address = Path(preloaded_client.address(folder, variables))
        address.unlink(missing_ok=True)  # of an earlier template that was not kept
        listener.bind(str(address))
        listener.listen(64)
        print("ready", file=answers, flush=True)
        answers.close()
        request = _serve(listener)
    if request is None:
        return
    _become(request, prepared.dropped_variables)
    _redirect(str(Path(folder) / "python"))
    _end(lambda: _run(request.words))


if __name__ == "__main__":
    main()
