"""The order of a graph's inputs depends on no version of Python.

A comprehension is a function up to Python 3.11, which gets the variables of the function around it by name. Since 3.12
it is inlined, and Dynamo meets its variables in the order of their use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cases.lookup import OPS

FILES = sorted(path for root in (OPS, OPS.parent / "models") for path in root.glob("test_*.py"))

VARYING = """
def test_it(x, weight, bias):
    return [x[i] + weight[i] * bias[i] for i in range(3)]
"""
FIXED = """
def test_it(x, weight, bias):
    def one(i):
        return x[i] + weight[i] * bias[i]
    return [one(i) for i in range(3)] + [bias * weight for _ in x]
"""


def varying(source: str) -> Iterator[str]:
    """The line of each comprehension of a case that uses inputs in another order than that of their names."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
            inputs = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
            for node in ast.walk(function):
                if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
                    used = list(dict.fromkeys(_names(node, inputs)))
                    if used != sorted(used):
                        yield f"line {node.lineno}: {', '.join(used)}"


def _names(node: ast.ListComp | ast.SetComp | ast.DictComp, inputs: set[str]) -> Iterator[str]:
    """Names of inputs, in the order of their use. The first iterable is evaluated outside the comprehension."""
    parts = [each for number, part in enumerate(node.generators) for each in ([part.iter] if number else []) + part.ifs]
    parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for part in parts:
        found = [each for each in ast.walk(part) if isinstance(each, ast.Name) and each.id in inputs]
        yield from (each.id for each in sorted(found, key=lambda each: (each.lineno, each.col_offset)))


def test_the_check_tells_the_two_apart():
    assert list(varying(VARYING)) == ["line 3: x, weight, bias"]
    assert list(varying(FIXED)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_comprehension_of_a_case_orders_inputs(path: Path):
    assert list(varying(path.read_text(encoding="utf-8"))) == []
