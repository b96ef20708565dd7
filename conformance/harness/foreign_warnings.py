"""Warnings that a project cannot mend: torch warns when it is imported, and when it compiles."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

_OTHERS = r"(torch|triton|conformance|sympy|networkx)(\.|$)"
#: What torch says of itself when its compiler is imported.
_OF_IMPORT = r"`torch\.jit\.script_method` is deprecated"


@contextlib.contextmanager
def no_errors() -> Iterator[None]:
    """Inside, `filterwarnings = error` holds for the project's modules: warnings of others are shown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("default", module=_OTHERS)
        warnings.filterwarnings("ignore", _OF_IMPORT, DeprecationWarning)
        yield
