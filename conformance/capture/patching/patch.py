"""Patches of torch: they replace parts of torch during a capture, and restore them after it.

Each private part of torch that a capture replaces is one Patch: where it is, its replacement, the reason.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from conformance.devices.environment import torch_build
from conformance.devices.torch_releases import is_between


@dataclass(frozen=True)
class Patch:
    """One replacement. `where`: "module:attribute.path". `make`: takes the original, returns the replacement.

    `why`: what goes wrong without the patch, or what it records. `optional`: skip the patch where the name does not
    exist: all works without it. `since`, `until`: the first and the last release of torch that the patch is for, such
    as "2.13"; "" for any. `facts`: what the patch records; where the name does not exist, they are unknown.
    """

    where: str
    make: Callable[[Any], Any]
    why: str
    optional: bool = False
    since: str = ""
    until: str = ""
    facts: tuple[str, ...] = ()

    def applies(self) -> bool:
        """Whether the patch is for the release of the installed torch."""
        return is_between(self.since, torch_build().release, self.until)

    def is_missing(self) -> bool:
        """Whether the installed torch lacks the name. Imports the module."""
        return is_missing(self.where)


def recording(facts: str, patches: Iterable[Patch]) -> list[Patch]:
    """The patches, each with the facts that are unknown without it. `facts`: their names, with blanks between."""
    return [replace(patch, facts=tuple(facts.split())) for patch in patches]


def owner(where: str) -> tuple[Any, str]:
    """The object that has the attribute, and the attribute's name. Raises AttributeError or ImportError."""
    module, _, path = where.partition(":")
    found = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        found = getattr(found, parent)
    getattr(found, name)
    return found, name


def is_missing(where: str) -> bool:
    """Whether the installed torch lacks "module:attribute.path". Imports the module."""
    try:
        owner(where)
    except (AttributeError, ImportError):
        return True
    return False


@contextlib.contextmanager
def applied(patches: Iterable[Patch]) -> Iterator[None]:
    """Applies the patches in order, and always restores the originals in reverse order."""
    with contextlib.ExitStack() as stack:
        for patch in patches:
            if not patch.applies() or ((patch.optional or patch.facts) and patch.is_missing()):
                continue
            place, name = owner(patch.where)
            original = vars(place).get(name, _INHERITED)  # vars: staticmethod and property objects as they are
            stack.callback(_restore, place, name, original)
            setattr(place, name, patch.make(getattr(place, name)))
        yield


_INHERITED = object()


def _restore(place: Any, name: str, original: Any) -> None:
    if original is _INHERITED:
        delattr(place, name)
    else:
        setattr(place, name, original)
