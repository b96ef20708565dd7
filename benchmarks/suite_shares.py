"""A pytest plugin that measures where a run's CPU time goes; benchmarks/suite.py loads it with `-p suite_shares`.

It wraps the functions in which the parts of an item begin, in each process that runs items, and counts a part's time
without that of the parts inside. At its end, a process writes seconds of CPU time as JSON into the folder that
SUITE_SHARES names. It knows paths of this suite and of torch; a path that a commit lacks is left out.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Part → the functions in which it begins.
PARTS = {
    "Dynamo": ["torch._dynamo.convert_frame:_compile"],
    "AOTAutograd": ["torch._functorch.aot_autograd:aot_module_simplified"],
    "Inductor": ["torch._inductor.compile_fx:_compile_fx_inner"],
    "emulation": ["conformance.capture.emulation.wrapper:Emulation._load_wrapper"],
    "eager and compiled": ["conformance.numerics.comparison:CallComparison._call"],
    "float64": ["conformance.numerics.comparison:CallComparison._reference"],
    "harness": [
        "conformance.harness.item.checks:_ItemRun.run",
        "conformance.harness.schedule.captures_ahead:CapturesAhead._capture",
    ],
}


class Clock:
    """CPU seconds of the parts, each without the parts inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[str] = []
        self._last = 0.0

    def _book(self) -> None:
        now = time.process_time()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._last
        self._last = now

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._book()
            self._stack.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._book()
                self._stack.pop()

        return timed


CLOCK = Clock()


@functools.cache
def install() -> None:
    for part, paths in PARTS.items():
        for path in paths:
            module, _, name = path.partition(":")
            try:
                owner = importlib.import_module(module)
                *parents, attribute = name.split(".")
                owner = functools.reduce(getattr, parents, owner)
                setattr(owner, attribute, CLOCK.wrap(part, getattr(owner, attribute)))
            except (ImportError, AttributeError):
                continue


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if "conformance_item" in getattr(getattr(item, "callspec", None), "params", {}):
        item.callspec.params["conformance_item"].session.set_up_torch()  # type: ignore[attr-defined]
        install()


def pytest_sessionfinish() -> None:
    times = os.times()
    total = {"process": times.user + times.system, "C++ compiler": times.children_user + times.children_system}
    if CLOCK.seconds:
        path = Path(os.environ["SUITE_SHARES"], f"{os.getpid()}.json")
        path.write_text(json.dumps(total | CLOCK.seconds), encoding="utf-8")
