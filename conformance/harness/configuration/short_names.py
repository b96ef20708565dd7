"""Short names: `--device` for `--conformance-device`, where no other plugin and no conftest has an option `--device`.

pytest refuses two options of one name, and a conftest may add its own after ours. So pytest knows our options by their
long names only. This module replaces short names in the command line: once before conftests are loaded, for what must
be known then, and again when all options are known.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from conformance import settings
from conformance.harness.configuration.pytest_options import OPTIONS


class CommandLine:
    """The arguments of pytest_load_initial_conftests, which pytest parses once more after this hook."""

    def __init__(self, config: pytest.Config, parser: pytest.Parser, arguments: list[str]) -> None:
        self._config, self._parser, self._arguments = config, parser, arguments
        self._given = list(_with_files_read(arguments))

    def expect(self, texts: Iterable[str]) -> None:
        """Before conftests are loaded: takes our short names for ours unless one of these texts mentions them.

        `texts`: of the conftests that pytest will load.
        """
        if used := self._used_names():
            joined = "\n".join(texts)
            self._parse({name for name in used - self._names_of_others(used) if not _mentions(joined, name)})

    def settle(self) -> None:
        """After conftests were loaded: gives pytest long names."""
        if used := self._used_names():
            self._arguments[:] = self._parse(used - self._names_of_others(used))

    def remember_names_of_others(self) -> None:
        """Lets messages give the long name of each option whose short name somebody else has."""
        settings.set_names_of_others(self._names_of_others(OPTIONS))

    def _used_names(self) -> set[str]:
        return {name for name in OPTIONS if any(_is_option(each, name) for each in self._given)}

    def _parse(self, names: Collection[str]) -> list[str]:
        """Parses the arguments, with these names as ours, into the namespace that hooks read. Returns them."""
        replaced = with_long_names(self._given, names)
        parsed = self._parser.parse_known_args(replaced, namespace=copy.copy(self._config.option))
        if parsed.confcutdir is None:  # pytest has computed it
            parsed.confcutdir = self._config.known_args_namespace.confcutdir
        self._config.known_args_namespace = parsed
        return replaced

    def _names_of_others(self, names: Collection[str]) -> set[str]:
        """The short names in `names` that another plugin or a conftest has declared."""
        unknown = self._unknown_names(names)
        if unknown is None:  # a name that somebody has declared needs a value, so this one at least is declared
            return {name for name in names if not self._unknown_names([name])}
        return set(names) - unknown

    def _unknown_names(self, names: Collection[str]) -> set[str] | None:
        """The short names in `names` that pytest does not know; None if it refuses to parse them without a value."""
        given = list(itertools.takewhile(lambda argument: argument != "--", self._given))
        options = {f"--{name}": name for name in names}
        try:
            _, unknown = self._parser.parse_known_and_unknown_args(
                [*given, *options], namespace=copy.copy(self._config.option)
            )
        except pytest.UsageError:
            return None
        return {options[each] for each in unknown if each in options}


def with_long_names(arguments: Iterable[str], names: Collection[str]) -> list[str]:
    """The arguments with the long name of each of our options that is in `names`; as they are after `--`."""
    result, rest = [], iter(arguments)
    for argument in rest:
        name = next((name for name in names if _is_option(argument, name)), None)
        result.append(argument if name is None else settings.long_name(name) + argument.removeprefix(f"--{name}"))
        if argument == "--":
            break
    return [*result, *rest]


def _is_option(argument: str, name: str) -> bool:
    return argument == f"--{name}" or argument.startswith(f"--{name}=")


def _with_files_read(arguments: Iterable[str]) -> Iterable[str]:
    """The arguments with those of `@FILE` in its place: one each line, as argparse reads them."""
    for argument in arguments:
        file = Path(argument[1:])
        if argument.startswith("@") and file.is_file():
            yield from _with_files_read(file.read_text(encoding="utf-8").splitlines())
        else:
            yield argument


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"--{name}(?![\w-])", text) is not None
