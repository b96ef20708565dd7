"""Replacing parts of torch for the length of a capture, and putting them back.

Every private part of torch that a capture replaces is a Patch in a list: where, by what, why, for which versions.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patch:
    """One replacement. `where`: "module:attribute.path"; `make`: original → replacement.

    `why`: what goes wrong without it. `versions`: the torch versions it was checked on, for the reader.
    `optional`: absent in some supported version, where nothing is lost without it.
    """

    where: str
    make: Callable[[Any], Any]
    why: str
    versions: str = "2.11 to 2.15"
    optional: bool = False

    def owner(self) -> tuple[Any, str]:
        """The object that holds the attribute, and the attribute's name. Raises AttributeError or ImportError."""
        module, _, path = self.where.partition(":")
        owner = importlib.import_module(module)
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        getattr(owner, name)
        return owner, name

    def is_missing(self) -> bool:
        try:
            self.owner()
        except (AttributeError, ImportError):
            return True
        return False


@contextlib.contextmanager
def applied(patches: Iterable[Patch]) -> Iterator[None]:
    """Applies the patches in order and takes them back in reverse, whatever happens in between."""
    with contextlib.ExitStack() as stack:
        for patch in patches:
            if patch.optional and patch.is_missing():
                continue
            owner, name = patch.owner()
            own = vars(owner).get(name, _ABSENT)  # keeps staticmethod and property objects as they are
            stack.callback(_restore, owner, name, own)
            setattr(owner, name, patch.make(getattr(owner, name)))
        yield


_ABSENT = object()


def _restore(owner: Any, name: str, own: Any) -> None:
    if own is _ABSENT:
        delattr(owner, name)  # it was inherited
    else:
        setattr(owner, name, own)
