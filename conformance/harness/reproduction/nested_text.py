"""The expressions that make the arguments of a case's call from tensors: of groups, of modules, and of constants."""

from __future__ import annotations

import dataclasses
from typing import Any

from conformance.cases.case import Case
from conformance.cases.inputs import Input, Recipe
from conformance.cases.nested.groups import Group, members
from conformance.cases.nested.modules import ModuleInput
from conformance.harness.reproduction.argument_text import ArgumentText


class NestedText:
    """Writes the arguments of a case. `modules`: path of a module → the expression that makes it."""

    def __init__(self, case: Case, text: ArgumentText) -> None:
        self._case, self._text = case, text
        self.modules: dict[str, str] = {}

    def arguments(self) -> dict[str, str]:
        """Name → expression of `tensors`, a dict of path → tensor. Raises NotSelfContainedError."""
        return {name: self._expression(argument, name) for name, argument in self._case.arguments.items()}

    def _expression(self, value: Any, path: str) -> str:
        if isinstance(value, Input):
            return f"tensors[{path!r}]"
        if isinstance(value, ModuleInput):
            self.modules[path] = self._module(value, path)
            return f"with_tensors(MODULES[{path!r}], tensors, {path!r})"
        if isinstance(value, Group):
            return self._group(value, path)
        holds_recipes = any(True for _ in members(value, path))
        return (self._container(value, path) if holds_recipes else "") or self._text.expression(value)

    def _module(self, value: ModuleInput, path: str) -> str:
        choice = self._case.choices[path]
        arguments = [self._text.expression(each) for each in value.arguments]
        arguments += [f"{name}={self._text.expression(choice[name])}" for name in value.named]
        factory = self._text.expression(choice["factory"])
        made = f"{f'({factory})' if factory.startswith('lambda') else factory}({', '.join(arguments)})"
        return made if choice["training"] is None else f"{made}.train({choice['training']})"

    def _group(self, value: Group, path: str) -> str:
        if value.make is None:
            return self._expression(value.value, path)
        named = [f"{name}={self._expression(item, f'{path}.{name}')}" for name, item in value.value.items()]
        return f"{self._text.expression(value.make)}({', '.join(named)})"

    def _container(self, value: Any, path: str) -> str:
        """The expression of a container with recipes in it; "" for a value that is none."""
        if type(value) is dict:
            items = [f"{key!r}: {self._expression(item, f'{path}[{key!r}]')}" for key, item in value.items()]
            return f"{{{', '.join(items)}}}"
        if type(value) in (list, tuple):
            items = [self._expression(item, f"{path}[{index}]") for index, item in enumerate(value)]
            if type(value) is list:
                return f"[{', '.join(items)}]"
            return f"({', '.join(items)}{',' * (len(items) == 1)})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            names = value._fields
        elif dataclasses.is_dataclass(value) and not isinstance(value, (type, Recipe)):
            names = tuple(each.name for each in dataclasses.fields(value) if each.init)
        else:
            return ""
        named = [f"{name}={self._expression(getattr(value, name), f'{path}.{name}')}" for name in names]
        return f"{self._text.expression(type(value))}({', '.join(named)})"
