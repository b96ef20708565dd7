"""opinfo: each entry of PyTorch's op_db is a function, and its sample inputs are the cases."""

from __future__ import annotations

from pathlib import Path

from conformance.cases import run_values
from conformance.cases.case import function_of_cases
from conformance.cases.declaration_tables import Declarations
from conformance.sweep.entries import cases_of, entries


def _declare() -> None:
    """Makes a function `test_<name>` of each entry that has a selected case."""
    file, selection = Path(__file__), run_values.current().selection
    declarations = Declarations.read(file.with_name("declarations.toml"))
    found = entries()
    declarations.refuse_unknown_entries({entry.name for entry in found})
    for entry in found:
        if cases := cases_of(entry, file, selection, declarations):

            def named() -> None: ...

            named.__name__ = named.__qualname__ = f"test_{entry.name}"
            named.__doc__ = f"{entry.op.name}, as PyTorch's op_db has it."
            globals()[named.__name__] = function_of_cases(named, cases)


_declare()
