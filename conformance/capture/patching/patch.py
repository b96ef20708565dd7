"""Patches of torch: they replace parts of torch during a capture, and restore them after it.

Each private part of torch that a capture replaces is one Patch: where it is, its replacement, the reason.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patch:
    """One replacement. `where`: "module:attribute.path". `make`: takes the original, returns the replacement.

    `why`: what goes wrong without the patch, or what it records. `optional`: skip the patch where the name does not
    exist: some supported version works without it.
    """

    where: str
    make: Callable[[Any], Any]
    why: str
    optional: bool = False

    def owner(self) -> tuple[Any, str]:
        """The object that has the attribute, and the attribute's name. Raises AttributeError or ImportError."""
        module, _, path = self.where.partition(":")
        owner = importlib.import_module(module)
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        getattr(owner, name)
        return owner, name

    def is_missing(self) -> bool:
        """Whether the installed torch lacks the name. Imports the module."""
        try:
            self.owner()
        except (AttributeError, ImportError):
            return True
        return False


@contextlib.contextmanager
def applied(patches: Iterable[Patch]) -> Iterator[None]:
    """Applies the patches in order, and always restores the originals in reverse order."""
    with contextlib.ExitStack() as stack:
        for patch in patches:
            if patch.optional and patch.is_missing():
                continue
            owner, name = patch.owner()
            original = vars(owner).get(name, _INHERITED)  # vars: staticmethod and property objects as they are
            stack.callback(_restore, owner, name, original)
            setattr(owner, name, patch.make(getattr(owner, name)))
        yield


_INHERITED = object()


def _restore(owner: Any, name: str, original: Any) -> None:
    if original is _INHERITED:
        delattr(owner, name)
    else:
        setattr(owner, name, original)
