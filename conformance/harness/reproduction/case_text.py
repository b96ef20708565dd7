"""A case as text that needs only torch: its function, what the function needs of its file, and its constants."""

from __future__ import annotations

import types
from dataclasses import dataclass
from pathlib import Path

from conformance.cases.case import Case
from conformance.cases.inputs import Input
from conformance.harness.reproduction.argument_text import ArgumentText
from conformance.harness.reproduction.module_text import ModuleText, NotSelfContainedError


@dataclass(frozen=True)
class CaseText:
    """`imports`, `statements`: what stands above the function. `function`: its definition. `name`: of the function.

    `constants`: the arguments that are no tensors: name → expression.
    """

    imports: list[str]
    statements: str
    function: str
    name: str
    constants: dict[str, str]


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
    arguments = ArgumentText(module, fn.__globals__)
    constants = {
        name: arguments.expression(value) for name, value in case.arguments.items() if not isinstance(value, Input)
    }
    statements = module.text()
    return CaseText(list(arguments.imports), statements, function, fn.__name__, constants)
