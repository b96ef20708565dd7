"""The errors of the scripts that generate Halide kernels."""

import subprocess
import sys

import pytest

from conformance.capture.toolchain import halide_script
from conformance.capture.toolchain.other_backends import _generate


def test_the_error_names_the_cause():
    """Halide writes the cause first, and the traceback ends with a line that is the same for all causes."""
    script = "import sys; sys.exit('Unhandled exception: Error: Can only unroll\\nRuntimeError: Generator failed: -1')"
    with pytest.raises(RuntimeError, match=r"^Unhandled exception: Error: Can only unroll \(exit status 1 of"):
        _generate([sys.executable, "-c", script])


def test_a_script_that_succeeds_raises_nothing():
    _generate([sys.executable, "-c", "pass"])


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl(2)")
def test_a_script_ends_with_the_process_that_started_it(tmp_path):
    """Otherwise Halide goes on planning after the time limit of an item has ended its process."""
    (tmp_path / "plan.py").write_text("import time; print('plans', flush=True); time.sleep(60); print('planned')")
    start = f"import subprocess, sys; subprocess.run([sys.executable, {halide_script.__file__!r}, 'plan.py'])"
    with subprocess.Popen([sys.executable, "-c", start], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "plans\n"
        parent.kill()
        assert parent.stdout.read() == "", "the script has ended: its end of the pipe is closed"
