"""Records how many frames Dynamo compiled: a larger number after a call shows a recompilation.

Decision: Dynamo compiles a frame again if no compiled code fits the call. Where: torch/_dynamo/utils.py: `counters`. It
is private; the public torch.compiler can forbid a recompilation, but not count it.
"""

from __future__ import annotations


def compiled_frames() -> int:
    """The number of frames that Dynamo compiled in this process since its counters were cleared."""
    import torch._dynamo.utils

    return torch._dynamo.utils.counters["frames"]["total"]
