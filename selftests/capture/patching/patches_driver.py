"""Makes tiny captures with one patch left out. test_patches.py runs this in a process of its own.

Reads {target: [where, …]} from its first argument and prints, as JSON on the line that begins with RESULT,
{target: {where: [outcome with all patches, outcome without this one]}}. Each outcome comes from its own fork.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable

from patch_outcomes import OUTCOMES

from conformance.capture import exploration as exploration_module
from conformance.capture import isolation
from conformance.capture.toolchain import cpu_isa

#: Seconds for one capture on a busy machine.
LIMIT = 120


def generic(where: str) -> str:
    """The patch's key in OUTCOMES."""
    if where in OUTCOMES:
        return where
    where = re.sub(r":(CUDA|XPU)Device", ":Device", re.sub(r":Vec\w+\.", ":VecISA.", where))
    return re.sub(r"^torch.(cuda|xpu):", "torch.gpu:", where)


def outcome(where: str, target: str, *, left_out: bool) -> str:
    everything, exploration = isolation.patches, exploration_module.Explorer.patches
    if left_out:
        isolation.patches = lambda *of: [patch for patch in everything(*of) if patch.where != where]
        exploration_module.Explorer.patches = lambda *of: [patch for patch in exploration(*of) if patch.where != where]
        cpu_isa.CODEGEN_PATCHES = [patch for patch in cpu_isa.CODEGEN_PATCHES if patch.where != where]
    try:
        return OUTCOMES[generic(where)](target)
    except BaseException as error:  # noqa: BLE001 - also what ends a process is an outcome
        return f"raises {type(error).__name__}: {error}"


@functools.cache
def with_all_patches(ask: Callable[[str], str], target: str) -> str:
    """The outcome with all patches. Cached: several patches use the same function."""
    where = next(where for where, each in OUTCOMES.items() if each is ask)
    return run_forked(where, target, left_out=False)


def run_forked(where: str, target: str, *, left_out: bool) -> str:
    """The outcome, from a fork that is killed with its children.

    The fork writes it to a file: a pipe would stay open while one of its children lives.
    """
    begun = time.monotonic()
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as file:
        child = os.fork()
        if child == 0:
            os.setsid()
            for stream in (1, 2):  # its children may outlive it and keep the driver's streams open
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            file.write(outcome(where, target, left_out=left_out))
            file.flush()
            os._exit(0)
        status = wait_for(child)
        file.seek(0)
        text = file.read()
    took = f"{time.monotonic() - begun:5.1f} s"
    print(took, target, "without" if left_out else "with", where, status, file=sys.stderr, flush=True)
    return status or text


def wait_for(child: int) -> str:
    """Waits for the process, then kills its group. Returns "", or how the process failed."""
    end = time.monotonic() + LIMIT
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if ended == (0, 0):
        os.waitpid(child, 0)
        return f"does not end within {LIMIT} s"
    return "the process dies" if ended[1] else ""


if __name__ == "__main__":
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for target, places in json.loads(sys.argv[1]).items():
        for where in places:
            pair = ("unknown", "unknown")
            if ask := OUTCOMES.get(generic(where)):
                pair = with_all_patches(ask, target), run_forked(where, target, left_out=True)
            found.setdefault(target, {})[where] = pair
    print("RESULT" + json.dumps(found))
