"""Ways to plant a mistake into Inductor of this process, each a context manager that takes it out again.

They touch private parts of torch, and each fails loudly where the installed torch has no such place: PlantError.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

Plant = Callable[[], contextlib.AbstractContextManager[None]]


class PlantError(RuntimeError):
    """The installed torch has no such place, or the code there is another one."""


def _owner(dotted: str) -> tuple[Any, str]:
    """The object that holds an attribute, and the attribute's name: "torch._inductor.scheduler.Scheduler.fuse"."""
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:-1]:
            owner = getattr(owner, name)
        if not hasattr(owner, parts[-1]):
            break
        return owner, parts[-1]
    raise PlantError(f"there is no {dotted}")


def replaced(dotted: str, make: Callable[[Any], Any]) -> Plant:
    """Replaces a function or another value. `make` gets the original. A static method stays one."""

    @contextlib.contextmanager
    def plant() -> Iterator[None]:
        owner, name = _owner(dotted)
        static = isinstance(inspect.getattr_static(owner, name), staticmethod)
        new = make(getattr(owner, name))
        with mock.patch.object(owner, name, staticmethod(new) if static else new):
            yield

    return plant


def source(dotted: str, old: str, new: str) -> Plant:
    """Replaces `old` by `new` in the source of a function. Decorators are kept, and run again."""

    @contextlib.contextmanager
    def plant() -> Iterator[None]:
        owner, name = _owner(dotted)
        function = inspect.unwrap(getattr(owner, name))
        text = textwrap.dedent(inspect.getsource(function))
        if old not in text:
            raise PlantError(f"{dotted} has no {old!r}")
        static = isinstance(inspect.getattr_static(owner, name), staticmethod)
        found: dict[str, Any] = {}
        exec("from __future__ import annotations\n" + text.replace(old, new), function.__globals__, found)  # noqa: S102
        with mock.patch.object(owner, name, staticmethod(found[name]) if static else found[name]):
            yield

    return plant


def together(*plants: Plant) -> Plant:
    """All of them at once."""

    @contextlib.contextmanager
    def plant() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for each in plants:
                stack.enter_context(each())
            yield

    return plant


def lowered(operator: str, make: Callable[[Any], Any]) -> Plant:
    """Replaces the lowering of an operator of aten, such as "clone.default". `make` gets the original."""

    @contextlib.contextmanager
    def plant() -> Iterator[None]:
        from torch._inductor.lowering import lowerings

        overload = _overload(operator)
        if overload not in lowerings:
            raise PlantError(f"aten.{operator} has no lowering")
        with mock.patch.dict(lowerings, {overload: make(lowerings[overload])}):
            yield

    return plant


def decomposed(operator: str, function: Callable[..., Any]) -> Plant:
    """Makes Inductor decompose an operator of aten with `function`."""

    @contextlib.contextmanager
    def plant() -> Iterator[None]:
        from torch._inductor.decomposition import decompositions, fast_random_decomps

        change = {_overload(operator): function}
        with mock.patch.dict(decompositions, change), mock.patch.dict(fast_random_decomps(), change):
            yield

    return plant


def _overload(operator: str) -> Any:
    import torch

    packet, _, overload = operator.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


class Edit:
    """Edits the generated code. `count`: how often the pattern was found in all."""

    def __init__(self, pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> None:
        self.pattern, self.replacement = re.compile(pattern, re.MULTILINE), replacement

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        from torch._inductor.graph import GraphLowering

        original, count = GraphLowering.codegen, 0

        def codegen(graph: Any) -> Any:
            nonlocal count
            results = original(graph)
            wrapper = results[0] if isinstance(results, tuple) else results
            wrapper.value, found = self.pattern.subn(self.replacement, wrapper.value)
            count += found
            return results

        with mock.patch.object(GraphLowering, "codegen", codegen):
            yield
        if not count:
            raise PlantError(f"no generated code has {self.pattern.pattern!r}")
