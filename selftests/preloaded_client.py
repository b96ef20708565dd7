"""Stands in for `python`: a process of preloaded.py runs the words, in this one's place.

It gives the words, the variables, the working folder and the three standard streams to the template that has the same
early variables, and ends as the fork does that runs them. It passes Ctrl-C and SIGTERM on; where it is killed, the
template kills the fork. Without such a template, and for options that a fork cannot have, it becomes the real Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence

#: Variables that nothing reads before a run starts, or that a process of the harness gives to those that it starts: a
#: fork may have others of these than its template.
LATE_VARIABLES = (
    *("EXPECTTEST_ACCEPT", "CI", "GITHUB_", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TERM", "CONFORMANCE_"),
    *("_CONFORMANCE_", "PYTEST_", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "SYMPY_CACHE_SIZE", "OMP_NUM_THREADS"),
)


def early(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that a template and its forks have in common."""
    return {name: value for name, value in sorted(env.items()) if not name.startswith(LATE_VARIABLES)}


def address(folder: str, env: Mapping[str, str]) -> str:
    """The socket of the template for these variables."""
    return os.path.join(folder, hashlib.sha1(json.dumps(early(env)).encode()).hexdigest()[:16])  # noqa: PTH118, S324


def is_understood(words: Sequence[str]) -> bool:
    """Whether a fork can run what `python WORDS` runs."""
    rest = list(words)
    while rest and rest[0] in ("-u", "-W"):
        del rest[: 1 + (rest[0] == "-W")]
    return bool(rest) and (not rest[0].startswith("-") or (rest[0] in ("-c", "-m") and len(rest) > 1))


def main(folder: str, python: str, words: list[str]) -> None:
    """`folder`: that of the templates. `python`: the real one."""
    connection = socket.socket(socket.AF_UNIX)
    template = address(folder, os.environ)
    if not is_understood(words) or connection.connect_ex(template):
        os.execv(python, [python, *words])
    request = {"words": words, "env": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 - pathlib is slow to import
    socket.send_fds(connection, [b"."], [0, 1, 2])
    connection.sendall(json.dumps(request).encode() + b"\n")
    with connection.makefile("r") as answers:
        pid = int(answers.readline())
        signal.signal(signal.SIGINT, lambda *_: os.killpg(pid, signal.SIGINT))
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
        status = int(answers.readline())
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)
