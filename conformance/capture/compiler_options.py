"""Names of compiler options, as in a case's `config`: Inductor's (`cpp.simdlen`), and Dynamo's after `dynamo.`."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from conformance.errors import ConformanceError

#: With this option of Inductor, compiled code draws the random numbers that eager draws.
FALLBACK = "fallback_random"
#: What precedes the name of an option of Dynamo.
DYNAMO = "dynamo."
#: How messages name a type.
_TYPES = {bool: "True or False", int: "a whole number", float: "a number", str: "text", type(None): "None"}
#: Options that the suite itself must set → why.
RESERVED = {
    "compile_threads": "the suite's patches of torch do not reach other processes",
    "fx_graph_cache": "code from a cache is not generated, so it cannot be tested",
    "fx_graph_remote_cache": "code from a cache is not generated, so it cannot be tested",
}
#: Options that choose a backend of Inductor, and the Python packages that backends need.
BACKENDS = ("cpu_backend", "cuda_backend")
PACKAGES = {"halide": "halide", "pallas": "jax"}


class OptionError(ConformanceError, ValueError):
    """An option of the compiler that torch lacks, or a value that it does not take. The message says what is right."""


def problem_of(name: str, value: Any) -> str:
    """What is wrong with an option: torch has none of this name, it takes another type, or its value needs a package
    that is not installed; "" if nothing is.
    """
    if not is_option(name):
        nearest = ", ".join(similar_options(name))
        return f"torch has no option {name!r}" + (f"; nearest: {nearest}" if nearest else "")
    if name in RESERVED:
        return f"the suite sets {name} itself, because {RESERVED[name]}"
    wanted = _type_of(name)
    if _fits(value, wanted):
        package = PACKAGES.get(value, "") if name in BACKENDS else ""
        return f"install {package}" if package and importlib.util.find_spec(package) is None else ""
    quoted = f"; write {name}={str(value)!r}" if not isinstance(value, str) and _fits(str(value), wanted) else ""
    return f"{name} takes {_described(wanted)}, and {value!r} is {_described(type(value), of_value=True)}{quoted}"


def refuse_wrong_options(config: Mapping[str, Any]) -> None:
    """Raises OptionError for an option that torch lacks, or whose value is of another type. Imports torch."""
    for name, value in config.items():
        if problem := problem_of(name, value):
            raise OptionError(f"config[{name!r}]: {problem}")


def _type_of(name: str) -> Any:
    """The declared type of an option; Any if torch declares none."""
    from torch._dynamo import config as dynamo_config
    from torch._inductor import config as inductor_config

    module: Any = dynamo_config if name.startswith(DYNAMO) else inductor_config
    return module.get_type(name.removeprefix(DYNAMO))


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value may be that of an option of a type. The type of the default None says nothing."""
    if wanted in (Any, type(None)):
        return True
    origin = get_origin(wanted)
    if origin is Literal:
        return any(value == each and type(value) is type(each) for each in get_args(wanted))
    if origin in (Union, types.UnionType):
        return any(value is None if each is type(None) else _fits(value, each) for each in get_args(wanted))
    if origin is not None:
        return isinstance(value, origin)
    if wanted in (int, float):
        return isinstance(value, (int, wanted)) and not isinstance(value, bool)
    return isinstance(value, wanted) if isinstance(wanted, type) else True


def _described(wanted: Any, *, of_value: bool = False) -> str:
    """A type in words. `of_value`: it is that of a value that the user gave."""
    origin = get_origin(wanted)
    if origin is Literal:
        return f"one of {', '.join(map(repr, get_args(wanted)))}"
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_described, get_args(wanted))))
    if of_value and wanted is bool:
        return "a truth value"
    name = getattr(origin or wanted, "__name__", str(wanted))
    return _TYPES.get(wanted) or ("a function of Python" if name == "Callable" else f"a {name}")


def is_option(name: str) -> bool:
    """Whether the installed torch has an option of this name."""
    if name.startswith(DYNAMO):
        from torch._dynamo import config

        return hasattr(config, name.removeprefix(DYNAMO))
    return name in _inductor_options()


def similar_options(name: str) -> list[str]:
    """The options with the most similar names, at most 3, for a message about an unknown one.

    Those that only lack the name of their group come first, such as `triton.cudagraphs` for `cudagraphs`.
    """
    if name.startswith(DYNAMO):
        from torch._dynamo import config

        return difflib.get_close_matches(name, [f"{DYNAMO}{each}" for each in dir(config) if not each.startswith("_")])
    options = _inductor_options()
    in_group = [each for each in options if each.rpartition(".")[2] == name]
    return list(dict.fromkeys([*in_group, *difflib.get_close_matches(name, options)]))[:3]


def _inductor_options() -> list[str]:
    import torch._inductor

    return torch._inductor.list_options()


def split_options(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A case's `config`, split: Inductor's options, and Dynamo's without the prefix `dynamo.`."""
    dynamo = {name.removeprefix(DYNAMO): value for name, value in config.items() if name.startswith(DYNAMO)}
    return {name: value for name, value in config.items() if not name.startswith(DYNAMO)}, dynamo


def options_of_dynamo(config: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """A context in which Dynamo has its options of a case's `config`."""
    import torch._dynamo

    return torch._dynamo.config.patch(split_options(config)[1])
