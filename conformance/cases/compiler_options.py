"""Names of compiler options, as in a case's `config`: Inductor's (`cpp.simdlen`), and Dynamo's after `dynamo.`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

_DYNAMO = "dynamo."


def is_option(name: str) -> bool:
    """Whether the installed torch has an option of this name."""
    if name.startswith(_DYNAMO):
        from torch._dynamo import config

        return hasattr(config, name.removeprefix(_DYNAMO))
    return name in _inductor_options()


def similar_options(name: str) -> list[str]:
    """The options with the most similar names, at most 3, for a message about an unknown one."""
    if name.startswith(_DYNAMO):
        from torch._dynamo import config

        return difflib.get_close_matches(name, [f"{_DYNAMO}{each}" for each in dir(config) if not each.startswith("_")])
    return difflib.get_close_matches(name, _inductor_options())


def _inductor_options() -> list[str]:
    import torch._inductor

    return torch._inductor.list_options()


def split_options(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A case's `config`, split: Inductor's options, and Dynamo's without the prefix `dynamo.`."""
    dynamo = {name.removeprefix(_DYNAMO): value for name, value in config.items() if name.startswith(_DYNAMO)}
    return {name: value for name, value in config.items() if not name.startswith(_DYNAMO)}, dynamo
