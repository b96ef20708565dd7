"""Benchmarks: how fast a compiled function is compared with eager on a device of this machine, and why it is slower.

The function that torch.compile returned is timed directly, with the same tensors as the eager function. Both are called
once before: that call compiles, and checks the dtypes and shapes of the outputs against eager's. A recompilation during
timing is an error.

`timing`: clocks; works timed in turns. `limits`: the best that the device can do. `measure`: one case. `explain`: why
compiled is slower. `selection`: cases, values of their axes, and the target. `report`: the measurements as data.
`table`, `markdown`: reports for readers. `compare`: two reports.
"""

from conformance.errors import ConformanceError


class BenchError(ConformanceError, ValueError):
    """Input that cannot be measured or compared."""
