"""Seeds of all that is drawn at random: inputs, the places of special values, and cotangents.

With the run's seed 0, the default, a seed depends on a name: of the case, the input and the call. The bounds of known
failures were written for these values. With another seed of the run, it depends on what is drawn instead, such as the
shape and the dtype of an input, so that equal inputs of two cases have equal values.
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


def seed_of(name: str, *drawn: object) -> int:
    """A seed for what is drawn. It does not depend on the process, PYTHONHASHSEED or an order.

    `name`: counts with the run's seed 0. `drawn`: describe what is drawn; they count with other seeds of the run.
    """
    text = "/".join(map(str, (*drawn, run_seed()))) if run_seed() else name
    return zlib.crc32(text.encode())
