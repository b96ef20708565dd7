"""Pytest processes that have torch and Inductor from the start: importing them takes most of a small run's time.

A template process prepares as the plugin does, imports torch and Inductor, and forks for each run. The fork is a
process of its own, as `python -m pytest` would be. It differs in this: preparing and importing torch have happened. So
tests of just these, of variables and of `-n` start a real process.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(arguments: Sequence[str], folder: Path, env: Mapping[str, str], timeout: int) -> tuple[int, str]:
    """Runs pytest in a folder. Returns its exit status and what it printed. Raises subprocess.TimeoutExpired.

    `env`: the environment; the same in all calls of this process.
    """
    template = _template(tuple(sorted(env.items())))
    assert template.stdin is not None
    assert template.stdout is not None
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8", errors="replace") as output:
        request = {"arguments": list(arguments), "folder": str(folder), "output": output.name, "timeout": timeout}
        template.stdin.write(json.dumps(request) + "\n")
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


def _serve() -> dict[str, object] | None:
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


def main() -> None:
    from conformance.capture.deviceless.prepare import prepare

    prepare()
    import torch._inductor.compile_fx  # noqa: F401 - what every capture imports

    request = _serve()
    if request is None:
        return
    os.setsid()
    os.chdir(str(request["folder"]))
    with Path(str(request["output"])).open("wb") as output, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.path[0] = ""  # as `python -m pytest` has it
    sys.argv = ["pytest", *request["arguments"]]  # type: ignore[misc]
    import pytest

    sys.exit(pytest.main())


if __name__ == "__main__":
    main()
