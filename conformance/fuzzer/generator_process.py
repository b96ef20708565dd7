"""Generates programs in processes of their own: what eager does with memory may end them, and the search goes on.

`python -m conformance.fuzzer.generator_process` is the worker. It forks a process for each program.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from conformance.capture.forked_call import ForkedCallError, call_in_fork, use_one_thread
from conformance.capture.json_worker import JsonWorker, WorkerError, claim_stdout, serve
from conformance.fuzzer.corpus import ROUND, Corpus
from conformance.fuzzer.generator import Generated, Generator
from conformance.fuzzer.parts import Parts, selected_by

#: Seconds for one program.
_LIMIT = 60.0
#: How often a program begins with one of the corpus.
_CONTINUED = 0.4


class Programs:
    """The programs of a search by number. A context: its end stops the worker.

    `seed`: of all programs. `words`: of the command, which select cases. `parts`: the ids of those that may be a part.
    """

    def __init__(self, seed: int, corpus: Corpus, words: Sequence[str], parts: Sequence[str]) -> None:
        self._seed, self._corpus = seed, corpus
        self._setup = {"seed": seed, "words": list(words), "parts": list(parts)}
        self._worker = JsonWorker("conformance.fuzzer.generator_process", os.environ)

    def __enter__(self) -> Programs:
        self._folder = tempfile.TemporaryDirectory(prefix="conformance-explore-")
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._worker.close()
        self._folder.cleanup()

    def is_ready(self, number: int) -> bool:
        """Whether the programs that program `number` may begin with are known."""
        return self._corpus.is_ready(number)

    def program(self, number: int) -> Generated | None:
        """None where what was drawn does not fit together, cannot be captured, or ends the process."""
        import torch

        if number % ROUND == 0:
            self._clear(number)
        file = self._file(number)
        return torch.load(file, weights_only=False) if file is not None else None  # a file of our own

    def _clear(self, number: int) -> None:
        """Removes the files of programs that no later one can go on with."""
        members = self._corpus.members(number)
        for file in Path(self._folder.name).iterdir():
            if int(file.stem) < number - 2 * ROUND and int(file.stem) not in members:
                file.unlink()

    def _file(self, number: int) -> Path | None:
        """The file of a program. The programs that it goes on with are generated before, if a search goes on."""
        file = Path(self._folder.name, f"{number}.pt")
        if file.exists():
            return file
        parent = self._parent(number)
        before = self._file(parent) if parent is not None else None
        request = {**self._setup, "number": number, "parent": str(before or ""), "file": str(file)}
        try:
            return file if self._worker.ask(request, _LIMIT + 30)["is_program"] else None
        except WorkerError:  # it starts again for the next one
            return None

    def _parent(self, number: int) -> int | None:
        """The program of the corpus that a program goes on with, if any."""
        members = self._corpus.members(number)
        chance = random.Random(f"{self._seed}:{number}:parent")
        if not members or chance.random() >= _CONTINUED:
            return None
        return chance.choice(members[-20:] if chance.random() < 0.5 else members)


def main() -> None:
    answers = claim_stdout()
    use_one_thread()
    generators: list[Generator] = []

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if not generators:
            generators.append(_generator(request))
        try:
            return call_in_fork(lambda: _answer(generators[0], request), _LIMIT)
        except ForkedCallError:
            return {"is_program": False}

    serve(answers, answer)


def _generator(request: dict[str, Any]) -> Generator:
    """Loads the cases, and lets Dynamo trace once what it traces only once in a process."""
    import torch

    from conformance.compiler.compiler import compiler_here

    compiler_here().set_up_torch()
    use_one_thread()
    wanted = set(request["parts"])
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    return Generator(
        Parts([case for case in selected_by(request["words"]) if case.id in wanted], lambda _case: ""), request["seed"]
    )


def _answer(generator: Generator, request: dict[str, Any]) -> dict[str, Any]:
    """In the fork."""
    import torch

    parent = torch.load(request["parent"], weights_only=False) if request["parent"] else None
    generated = generator.program(request["number"], parent)
    if generated is not None:
        torch.save(generated, request["file"])
    return {"is_program": generated is not None}


if __name__ == "__main__":
    main()
