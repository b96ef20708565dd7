"""How often Dynamo has compiled a frame: a call that compiles again was not served by the code that is there.

`torch._dynamo.utils.counters` is private and has no public counterpart (torch.compiler knows how to forbid a
recompilation, not how to count). Names as in torch 2.11 to 2.15.
"""

from __future__ import annotations


def compiled_frames() -> int:
    """How many frames Dynamo has taken up in this process since its counters were cleared."""
    import torch._dynamo.utils

    return torch._dynamo.utils.counters["frames"]["total"]
