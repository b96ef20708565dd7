"""The names of the compiler's options."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

_DYNAMO = "dynamo."


def nearest(name: str) -> list[str] | None:
    """None where torch has an option of that name: one of Inductor's, or with `dynamo.` before it one of Dynamo's.

    Else the most similar names, as Inductor (torch._inductor.list_options) lists its own.
    """
    if name.startswith(_DYNAMO):
        from torch._dynamo import config

        names = [f"{_DYNAMO}{each}" for each in dir(config) if not each.startswith("_")]
        return None if hasattr(config, name.removeprefix(_DYNAMO)) else difflib.get_close_matches(name, names)
    import torch._inductor

    names = torch._inductor.list_options()
    return None if name in names else difflib.get_close_matches(name, names)


def split_options(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A case's options: Inductor's, and Dynamo's without the `dynamo.` before them."""
    dynamo = {name.removeprefix(_DYNAMO): value for name, value in config.items() if name.startswith(_DYNAMO)}
    return {name: value for name, value in config.items() if not name.startswith(_DYNAMO)}, dynamo
