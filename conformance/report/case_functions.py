"""The text of a case: its function with the decorators, as its file has it now."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from conformance.report.columns import Cell


def function_text(cell: Cell) -> str:
    """The text of the cell's case; "" where its file is not here, or where no function of it makes the case."""
    path, _, test = cell.node.partition("::")
    name = test.rpartition("::")[2].partition("[")[0]
    files = [Path(cell.record.file)] if cell.record and cell.record.file else []
    return next((texts[name] for file in [*files, Path(path)] if name in (texts := _functions(file))), "")


@functools.cache
def _functions(file: Path) -> dict[str, str]:
    """Name of each function that a test file declares → its text. A file that cannot be read has none."""
    try:
        text = file.read_text(encoding="utf-8")
        body = ast.parse(text).body
    except (OSError, SyntaxError, ValueError):
        return {}
    lines = text.splitlines()
    functions = [each for each in body if isinstance(each, ast.FunctionDef)]
    first = {each.name: min([each.lineno, *(part.lineno for part in each.decorator_list)]) for each in functions}
    return {each.name: "\n".join(lines[first[each.name] - 1 : each.end_lineno]) for each in functions}
