"""The errors of the scripts that generate Halide kernels."""

import sys

import pytest

from conformance.capture.toolchain.other_backends import _generate


def test_the_error_names_the_cause():
    """Halide writes the cause first, and the traceback ends with a line that is the same for all causes."""
    script = "import sys; sys.exit('Unhandled exception: Error: Can only unroll\\nRuntimeError: Generator failed: -1')"
    with pytest.raises(RuntimeError, match=r"^Unhandled exception: Error: Can only unroll \(exit status 1 of"):
        _generate([sys.executable, "-c", script])


def test_a_script_that_succeeds_raises_nothing():
    _generate([sys.executable, "-c", "pass"])
