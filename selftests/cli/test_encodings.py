"""Where the locale is not UTF-8: what needs torch's compiler is refused in one sentence, and the rest is printed."""

from __future__ import annotations

import pytest
from command_process import process
from suites import SCALE, SM90, Suite

from conformance.devices import environment
from conformance.devices.environment import PreparationError

#: Python reads and writes ASCII: by default it takes UTF-8 in this locale.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
SENTENCE = "here, and torch's compiler cannot be imported so: set PYTHONUTF8=1, or LC_ALL=C.UTF-8"


def test_commands():
    printed = process("docs", "numerics", env=ASCII)
    assert printed.returncode == 0, printed.stderr
    assert "\\u2264" in printed.stdout
    refused = process("show", "flip/vflip-224-f32-contiguous", *SM90, env=ASCII)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert refused.stderr.endswith(f"{SENTENCE}\n")


def test_pytest(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", SCALE)
    suite.run(*SM90, env=ASCII).ends(4).has(SENTENCE).has_not("Traceback")


@pytest.mark.parametrize(("encoding", "is_refused"), [("utf-8", False), ("latin-1", False), ("euc-jp", True)])
def test_encodings(encoding, is_refused, monkeypatch):
    monkeypatch.setattr("locale.getpreferredencoding", lambda _: encoding)
    if is_refused:
        with pytest.raises(PreparationError, match="Python reads text as euc-jp here"):
            environment.refuse_unusable_torch()
    else:
        environment.refuse_unusable_torch()
