"""Seeds of all that is drawn at random: inputs, the places of special values, and cotangents.

A seed depends on what is drawn, such as the position, the shape and the dtype of an input, and on the seed of the run.
It does not depend on names. So equal inputs of two cases have equal values, and a case that gets another name keeps its
values.
"""

from __future__ import annotations

import zlib

from conformance.cases import run_values


def seed_of(*drawn: object) -> int:
    """A seed for what `drawn` describes. It does not depend on the process, PYTHONHASHSEED or an order."""
    return zlib.crc32("/".join(map(str, (*drawn, run_values.current().seed))).encode())
