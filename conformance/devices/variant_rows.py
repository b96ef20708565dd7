"""Rows of targets that are variants: what a row does not say, it has from the row that `variant_of` names.

Only rows of further tables and of vendors are completed. Those of this package's table say everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What each row says for itself.
_OWN = ("variant_of", "stores_code", "assumed", "description", "confirmed")


def completed_rows(rows: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Name → row, with the keys and the properties that a variant leaves out. `known`: the rows that may be named.

    What is no row stays as it is: reading it as a target says what is wrong.
    """
    return {name: _completed(row, known) for name, row in rows.items()}


def _completed(row: Any, known: Mapping[str, Any]) -> Any:
    base = known.get(row.get("variant_of", "")) if isinstance(row, dict) else None
    if not isinstance(base, dict) or base is row:
        return row
    inherited = {key: value for key, value in base.items() if key not in _OWN}
    described = {"description": f"a variant of {row['variant_of']}", "confirmed": "unconfirmed"}
    result = inherited | described | row
    own, properties = row.get("properties", {}), base.get("properties", {})
    if isinstance(own, dict) and properties:
        result["properties"] = properties | own
        assumed = [name for name in base.get("assumed", ()) if name not in own]
        result["assumed"] = list(dict.fromkeys([*assumed, *row.get("assumed", ())]))
    return result
