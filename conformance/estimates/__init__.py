"""Estimates: the least time of each kernel and library call on a target, without the device.

`model`: all calls of a capture with their least times. `report`: estimates as data, read and written. `table`:
estimates for readers. `compare`: two reports.
"""

from conformance.errors import ConformanceError


class EstimateError(ConformanceError, ValueError):
    """Input that cannot be estimated or compared."""
