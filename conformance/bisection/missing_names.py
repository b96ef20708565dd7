"""Names that the binaries of the imported torch lack and those of another one have: exchanged functions mention them.

A placeholder takes the place of such a name, for example of a new dtype in a tuple of dtypes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

_DECLARED = re.compile(r"^(?:def |class )?([A-Za-z]\w*)(?=[:(])", re.MULTILINE)


class PlaceholderError(AttributeError):
    """A placeholder was used for more than to be compared."""


class Placeholder:
    """Stands for a name that is missing: equal to itself alone."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise PlaceholderError(f"{self._name} is a placeholder: the old torch lacks it, so it cannot be called")

    def __getattr__(self, attribute: str) -> NoReturn:
        raise PlaceholderError(f"{self._name} is a placeholder: the old torch lacks it, so it has no {attribute}")


class MissingNames:
    """Gives placeholders for what the stub of the new binaries declares, and that of the old ones does not.

    `used`: the names of the placeholders that were given, in order.
    """

    def __init__(self, old: Path, new: Path) -> None:
        self._names = _declared(new) - _declared(old)
        self._made: dict[str, Placeholder] = {}

    @property
    def used(self) -> tuple[str, ...]:
        return tuple(self._made)

    def install(self, *modules: ModuleType) -> None:
        """For the rest of the process, as attributes of these modules."""
        for module in modules:
            give_names(module, self._placeholders)

    def _placeholders(self, module: ModuleType, name: str) -> dict[str, Placeholder]:
        if name not in self._names:
            return {}
        full_name = f"{module.__name__}.{name}"
        return {name: self._made.setdefault(full_name, Placeholder(full_name))}


def give_names(module: ModuleType, find: Callable[[ModuleType, str], Mapping[str, Any]]) -> None:
    """Lets code that writes a name which the module lacks find it. `find`: gives what it has of that name."""
    before: Callable[[str], Any] | None = vars(module).get("__getattr__")

    def get(name: str) -> Any:
        written = sys._getframe(1).f_code.co_names  # noqa: SLF001 - not what hasattr asks for
        if name in written and name in (found := find(module, name)):
            return found[name]
        if before is None:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return before(name)

    vars(module)["__getattr__"] = get


def _declared(packages: Path) -> set[str]:
    """The names in the stub of torch's binaries below this folder; none if there is no stub."""
    file = packages / "torch" / "_C" / "__init__.pyi"
    return set(_DECLARED.findall(file.read_text(encoding="utf-8"))) if file.is_file() else set()
