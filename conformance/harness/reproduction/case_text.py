"""A case as text that needs only torch: its function, what the function needs of its file, and its arguments."""

from __future__ import annotations

import types
from dataclasses import dataclass
from pathlib import Path

from conformance.cases.case import Case
from conformance.harness.reproduction.argument_text import ArgumentText
from conformance.harness.reproduction.module_text import ModuleText, NotSelfContainedError
from conformance.harness.reproduction.nested_text import NestedText


@dataclass(frozen=True)
class CaseText:
    """`imports`, `statements`: what stands above the function. `function`: its definition. `name`: of the function.

    `arguments`: name → expression of `tensors`, a dict of path → tensor. `modules`: path → expression.
    """

    imports: list[str]
    statements: str
    function: str
    name: str
    arguments: dict[str, str]
    modules: dict[str, str]


def case_text(case: Case) -> CaseText:
    """The text of a case. Raises NotSelfContainedError with the reason why there is none."""
    fn = case.fn
    if not isinstance(fn, types.FunctionType) or Path(fn.__code__.co_filename).resolve() != case.file.resolve():
        raise NotSelfContainedError("the case's function is not written in its file")
    if fn.__closure__:
        raise NotSelfContainedError("the case's function uses variables of a function around it")
    if case.prepare is not None:
        raise NotSelfContainedError(f"the case calls {getattr(case.prepare, '__name__', 'a function')}() first")
    module = ModuleText(case.file)
    function = module.case_function(fn.__name__, fn.__code__.co_firstlineno)
    text = ArgumentText(module, fn.__globals__)
    nested = NestedText(case, text)
    arguments = nested.arguments()
    return CaseText(list(text.imports), module.text(), function, fn.__name__, arguments, nested.modules)
