"""A layer: imports its part, then waits, and forks for what comes on top of it. Each fork reads its own files.

    torch       torch, the packages that its compiler imports, and what of this package needs no compiler
    compiler    the compiler, and what a capture needs beside it
    answer      the files of cases: captures them, sends what came out, and ends

A layer has one thread when it forks: threads of OpenMP or autograd do not survive a fork. It ends with the process of
the user, also where that is killed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from conformance.capture.preloading import import_below, import_compiler, import_other_packages
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cli.watching.answers import answer
from conformance.cli.watching.failures import failure_text
from conformance.cli.watching.layers import ANSWER, COMPILER, STATUS, TORCH, WARM
from conformance.cli.watching.messages import Channel
from conformance.compiler.compiler import Compiler, checked_numerics, compiler_here
from conformance.compiler.garbage_collection import off_while_loading
from conformance.devices.targets import use_tables
from conformance.generated.capture_texts import whole_text
from conformance.harness.accidents.guardian import end_with

#: What every capture makes once in a process, this one makes too. It has no gradient: autograd would start a thread.
_WARMING = ("lambda x: (x.relu() * 2).sum(-1)", AdhocOptions(inputs=("x=4x8:f32",)))
#: Rooms that an answer needs. These parts import the compiler.
_ROOMS = ("cases", "capture", "facts", "normalize", "numerics", "storage")
_OF_COMPILER = ("conformance.capture.emulation",)
#: Seconds in which the forks of a layer end by themselves.
_PATIENCE = 2.0


class _Layer:
    """This process. It changes its role when it is a fork."""

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        self._channel, self._request = channel, request
        self._compiler: Any = None  # of the first layer on, a Compiler
        self._children: dict[int, int] = {}  # descriptor → process id
        self._statuses: dict[int, int] = {}
        self._told: set[str] = set()  # the files that the layers below have named
        self._folder: str = request["folder"]

    def run(self) -> None:
        """Never returns."""
        while True:  # each turn is another process
            try:
                self._act()
            except Exception as error:  # noqa: BLE001 - whatever an edited file raises is the answer
                self._tell({"error": failure_text(error, self._request["edited"])})
                os._exit(1)
            self._tell({"files": self._new_files()})
            if self._request["role"] == ANSWER:
                os._exit(0)
            self._serve()

    def _act(self) -> None:
        role, edited = self._request["role"], self._request["edited"]
        ignore_bytecode_of(edited)
        importlib.invalidate_caches()
        if role == TORCH:
            self._compiler = self._with_torch()
            return
        if role == COMPILER:
            with off_while_loading():
                import_compiler()
                for name in _OF_COMPILER:
                    import_below(name)
            self._compiler.threads = 1
            self._compiler.set_up_torch()
        else:
            for result in answer(self._compiler, self._request):
                self._tell({"result": result})

    def _with_torch(self) -> Compiler:
        use_tables(self._request["tables"])
        compiler = compiler_here()
        with off_while_loading():
            importlib.import_module("torch")
            import_other_packages()
            for room in _ROOMS:
                import_below(f"conformance.{room}", _OF_COMPILER)
        return compiler

    def _serve(self) -> None:
        """Returns in a fork, which has the next role."""
        while True:
            if not self._channel.has_message():
                ready = select.select([self._channel.fileno(), *self._children], [], [])[0]
                for descriptor in self._children.keys() & set(ready):
                    self._reap(descriptor)
                if self._channel.fileno() not in ready:
                    continue
            request = self._channel.receive()
            if request is None:
                self._end()
            elif request["role"] == WARM:
                with _silence():
                    self._warm(request["targets"])
            elif request["role"] == STATUS:
                self._tell({"status": self._status(request["pid"])})
            elif self._fork(request):
                return

    def _fork(self, request: dict[str, Any]) -> bool:
        """Whether this process is the fork."""
        parent, descriptor, files = os.getpid(), self._channel.descriptor(), self._new_files()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            end_with(parent)
            self._channel.close()
            for other in self._children:
                os.close(other)
            self._channel = Channel(socket.socket(fileno=descriptor))
            self._request, self._children, self._statuses = request, {}, {}
            return True
        with contextlib.suppress(OSError):
            os.setpgid(child, child)  # both do it: the group exists before anybody kills it
        os.close(descriptor)
        self._children[os.pidfd_open(child)] = child
        self._tell({"pid": child, "files": files})
        return False

    def _new_files(self) -> list[str]:
        """The files of modules that were imported since it was asked last, here or in the layer below."""
        new = module_files() - self._told
        self._told |= new
        return sorted(new)

    def _reap(self, descriptor: int) -> None:
        child = self._children.pop(descriptor)
        os.close(descriptor)
        self._statuses[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _status(self, child: int) -> int:
        for descriptor in [each for each, pid in self._children.items() if pid == child]:
            self._reap(descriptor)
        return self._statuses.pop(child, 0)

    def _warm(self, targets: Collection[str]) -> None:
        """Captures a small function. What it prints and raises is of no interest: an answer would say the same."""
        case, _ = resolve_case(_WARMING[0], (), _WARMING[1])
        for name in targets:
            target = self._compiler.target(name)
            native = self._compiler.is_native(target, run=True)
            if native and target.device != "cpu":
                continue  # a fork cannot use a GPU that this process has used
            with contextlib.suppress(Exception), self._compiler.generate(case, target, run=True) as result:
                whole_text(result.capture, target)
                checked_numerics(self._compiler, case, result, target, native=native)

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(message)
        except OSError:
            self._end()

    def _end(self) -> None:
        """Ends the forks and this process. The first layer also removes the folder of the temporary files."""
        end = time.monotonic() + _PATIENCE
        while self._children:
            left = max(0.0, end - time.monotonic())
            if not select.select(list(self._children), [], [], left)[0]:
                for child in self._children.values():
                    os.killpg(child, signal.SIGKILL)
            for descriptor in select.select(list(self._children), [], [])[0]:
                self._reap(descriptor)
        if self._request["role"] == TORCH:
            shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(0)


def module_files() -> set[str]:
    """The files of all modules that this process has imported."""
    return {file for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}


def ignore_bytecode_of(files: Collection[str]) -> None:
    """Lets Python compile these files anew, and write no bytecode of them.

    Python takes a .pyc file whose source has the same size and was saved within the same second.
    """
    original, names = SourceFileLoader.path_stats, {Path(file).name for file in files}
    real_paths = {os.path.realpath(file) for file in files}

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, Any]:
        if path.rpartition(os.sep)[2] in names and os.path.realpath(path) in real_paths:
            raise OSError
        return original(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Inside, what this process prints is lost."""
    kept = [os.dup(number) for number in (1, 2)]
    try:
        with Path(os.devnull).open("wb") as nothing:
            for number in (1, 2):
                os.dup2(nothing.fileno(), number)
        yield
    finally:
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def main() -> None:
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    request = channel.receive()
    if request is not None:
        _Layer(channel, request).run()


if __name__ == "__main__":
    main()
