"""Seeds of all that is drawn at random: inputs, the places of special values, and cotangents.

A seed depends on what is drawn, such as the position, the shape and the dtype of an input, and on the seed of the run.
It does not depend on names. So equal inputs of two cases have equal values, and a case that gets another name keeps its
values.
"""

from __future__ import annotations

import os
import zlib

#: Holds the run's seed, if it is not 0, so that processes which this one starts draw the same values.
VARIABLE = "CONFORMANCE_SEED"


def use_run_seed(seed: int) -> None:
    """Sets the seed of the run, for this process and those that it starts. `seed`: 0 or more."""
    if seed:
        os.environ[VARIABLE] = str(seed)
    else:
        os.environ.pop(VARIABLE, None)


def run_seed() -> int:
    """The seed of the run: 0 if none was set."""
    return int(os.environ.get(VARIABLE, "0"))


def seed_of(*drawn: object) -> int:
    """A seed for what `drawn` describes. It does not depend on the process, PYTHONHASHSEED or an order."""
    return zlib.crc32("/".join(map(str, (*drawn, run_seed()))).encode())
