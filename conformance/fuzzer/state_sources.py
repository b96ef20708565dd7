"""The sources of the idioms of state, and of what they need: a program carries them as text."""

from __future__ import annotations

import ast
import functools
import inspect

from conformance.fuzzer import idioms_of_state


def _plain(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return ast.parse(f"{ast.unparse(node.target)} = {ast.unparse(node.value)}").body[0]
    return node


def _without_annotations(node: ast.stmt) -> ast.stmt:
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef):
            each.returns = None
            if ast.get_docstring(each):
                each.body = each.body[1:]
        elif isinstance(each, ast.arg):
            each.annotation = None
        elif isinstance(each, ast.ClassDef):
            body = each.body[1:] if ast.get_docstring(each) else each.body
            each.body = [_plain(statement) for statement in body]
    return node


@functools.cache
def sources() -> dict[str, str]:
    """Name → source, without annotations, of all that a program may have of idioms_of_state.py, in order."""
    found: dict[str, str] = {}
    for node in ast.parse(inspect.getsource(idioms_of_state)).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = node.name
        else:
            continue
        decorated = isinstance(node, ast.FunctionDef) and node.decorator_list  # torch asks for the annotations
        found[name] = ast.unparse(node if decorated else _without_annotations(node))
    return found


@functools.cache
def idioms() -> list[str]:
    """The names of the idioms: the functions of `x` alone."""
    functions = inspect.getmembers(idioms_of_state, inspect.isfunction)
    return [name for name, value in functions if list(inspect.signature(value).parameters) == ["x"]]
