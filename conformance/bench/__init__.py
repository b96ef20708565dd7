"""How fast a compiled function is beside eager, on a device that is here, and why where it is slower.

What is timed is the function that torch.compile returned, called with the same tensors as the eager function: once
before, outside of the timing, so that it is compiled and its outputs are held to eager's dtypes and shapes. Nothing of
the suite's stands between the clock and the call; a recompilation while it is timed is an error.

`timing`: clocks and turns. `limits`: what the device can do. `measuring`: one case. `explaining`: why compiled loses.
`selecting`: cases, values of their axes, and the device. `report`: what was measured, as data. `table`, `markdown`:
for readers. `comparing`: two reports.
"""

from conformance.errors import ConformanceError


class BenchError(ConformanceError, ValueError):
    """Something asked for that cannot be measured or compared; the message says what would be right."""
